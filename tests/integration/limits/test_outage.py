"""The limits' Redis is frozen and killed under load: no request waits long for it, and no limit is exceeded by it."""

import asyncio
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from penstock.connectors.redis.wire import CONNECT_WITHIN_S, PATIENCE_S
from penstock.domain.outage import LONGEST_WAIT_S
from tests.integration.limits.conftest import OUTAGE_RPM, PLANS
from tests.support.gateways.shared_limits import GATEWAYS, Answer, Fleet, fleet, statuses, until
from tests.support.patience import patient

pytestmark = pytest.mark.integration

SLOW_MACHINE_S = 0.5
"""What a busy machine may add to any of these times."""
SILENCE_S = 2 * PATIENCE_S + CONNECT_WITHIN_S
"""After so long every gateway has noticed."""


@pytest.fixture(scope="module")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run a fleet of its own: after a store was lost without a ledger, tenants with a budget are served no more."""
    with fleet(tmp_path_factory.mktemp("outage"), PLANS) as running:
        yield running


async def told(gateways: Fleet, metric: str) -> list[float]:
    async with gateways.client() as http:
        pages = await asyncio.gather(*(http.get(one.metrics_url) for one in gateways.gateways))
    return [float(page.text.partition(f"\n{metric} ")[2].partition("\n")[0]) for page in pages]


async def until_all(gateways: Fleet, reach: str) -> float:
    async def reached() -> bool:
        return await told(gateways, f'penstock_limits_reach{{state="{reach}"}}') == [1.0] * GATEWAYS

    return await until(reached, 15.0)


async def until_met(gateways: Fleet) -> None:
    """Wait until the gateways know of one another."""

    async def met() -> bool:
        return await told(gateways, "penstock_limits_gateways") == [float(GATEWAYS)] * GATEWAYS

    await until(met, 15.0)
    await until_all(gateways, "shared")


def hurt(gateways: Fleet, how: str) -> None:
    if how == "frozen":
        gateways.redis.freeze(frozen=True)
    else:
        gateways.redis.kill()


def heal(gateways: Fleet, how: str) -> None:
    if how == "frozen":
        gateways.redis.freeze(frozen=False)
    else:
        gateways.redis.start()


def admission_s(answer: Answer) -> float:
    """Return what admission took, as the answer itself says."""
    found = re.search(r"admission;dur=([\d.]+)", answer.headers["server-timing"])
    assert found is not None, answer.headers
    return float(found[1]) / 1e3


async def load(gateways: Fleet, http: httpx.AsyncClient, per_s: float, seconds: float) -> list[tuple[float, Answer]]:
    """Ask at this pace whatever comes back; return when each was asked, in seconds from now, and its answer."""
    began, asking = time.monotonic(), list[tuple[float, asyncio.Task[Answer]]]()
    while (at := time.monotonic() - began) < seconds:
        asked = asyncio.create_task(gateways.ask("outage-steady", len(asking) % GATEWAYS, http=http))
        asking.append((at, asked))
        await asyncio.sleep(1 / per_s)
    return [(at, await asked) for at, asked in asking]


async def test_a_hiccup_of_the_store_refuses_nobody(gateways: Fleet) -> None:
    """Frozen for longer than it may be silent: a tenant with a budget waits until it is back."""
    await until_met(gateways)
    gateways.redis.freeze(frozen=True)
    asked = asyncio.create_task(gateways.burst("outage-budget", 3 * GATEWAYS))
    try:
        await until_all(gateways, "alone")
    finally:
        gateways.redis.freeze(frozen=False)
    assert statuses(await asked) == {200: 3 * GATEWAYS}


async def test_budgets_are_closed_while_nobody_counts_them(gateways: Fleet) -> None:
    """503 with a wait for a tenant with a budget, and for an idempotency key; all others notice nothing."""
    await until_met(gateways)
    assert (await gateways.ask("outage-budget")).status == 200
    gateways.redis.kill()
    try:
        budget, free = await gateways.burst("outage-budget", 8), await gateways.burst("free", 40)
        keyed = await gateways.ask("free", headers={"idempotency-key": "k"})
    finally:
        gateways.redis.start()
    assert statuses(budget) == {503: 8}
    assert statuses(free) == {200: 40}
    for answer in (*budget, keyed):
        assert (answer.status, json.loads(answer.text)["error"]["code"]) == (503, "store_unavailable")
        assert 1 <= int(answer.headers["retry-after"]) <= LONGEST_WAIT_S  # as long as the outage so far
        assert answer.headers["x-should-retry"] == "true"
    await until_all(gateways, "shared")
    # It came back empty, and here there is no ledger to count budgets from.
    assert statuses(await gateways.burst("outage-budget", 8)) == {503: 8}
    assert (await gateways.ask("outage-steady")).status == 200


@pytest.mark.parametrize("how", ["frozen", "killed"])
async def test_nobody_waits_for_long_and_no_limit_is_exceeded_by_a_return(gateways: Fleet, how: str) -> None:
    """Under load: one bounded wait, then none; each gateway gives its part; what was given counts on return."""
    await until_met(gateways)
    hurt(gateways, how)
    began = time.monotonic()
    try:
        async with gateways.client() as http:
            steady = await load(gateways, http, per_s=40, seconds=SILENCE_S + 1.5)
        rated = await gateways.burst(f"{how}-rate", 2 * OUTAGE_RPM)
        await until_all(gateways, "alone")
    finally:
        heal(gateways, how)
    back = asyncio.create_task(until_all(gateways, "shared"))
    late = [await gateways.burst(f"{how}-rate", 8)]
    while not back.done():
        late.append(await gateways.burst(f"{how}-rate", 8))
        await asyncio.sleep(0.1)
    late.append(await gateways.burst(f"{how}-rate", 8))
    refilled = (time.monotonic() - began) * OUTAGE_RPM / 60

    assert statuses([answer for _, answer in steady]) == {200: len(steady)}
    waits = sorted(admission_s(answer) for _, answer in steady)
    after = sorted(admission_s(answer) for at, answer in steady if at > SILENCE_S)
    assert waits[-1] < SILENCE_S + patient(SLOW_MACHINE_S)
    assert after[math.floor(0.99 * len(after))] < patient(SLOW_MACHINE_S / 10)
    by_gateway = Counter(answer.gateway for answer in rated if answer.status == 200)
    assert all(OUTAGE_RPM // GATEWAYS <= by_gateway[i] <= OUTAGE_RPM // GATEWAYS + refilled for i in range(GATEWAYS))
    given = sum(by_gateway.values()) + sum(statuses(answers)[200] for answers in late)
    assert given <= OUTAGE_RPM + refilled
    assert await back < 8.0
