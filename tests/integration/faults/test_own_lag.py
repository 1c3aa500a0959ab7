"""A process that stood still holds nothing against others: a real gateway is stopped while connections open."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from penstock.domain.tenancy.tenant import Plan
from penstock.telemetry import names
from tests.support.failures.stopped import stopped
from tests.support.failures.table import FaultTable
from tests.support.gateways.zones import CHAT, Site, site
from tests.support.patience import patient, until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CALLERS = 40
ROUNDS_S = (0.01, 0.03, 0.06)
"""How long the gateway runs before it is stopped again: each meets other connections half open."""
START_S = 1.0
BODY = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a gateway before one engine: what shuts it shuts the version."""
    with site(tmp_path_factory.mktemp("lag"), {"toy": {"a": 1}}, plan=Plan(), start_s=START_S) as made:
        yield made


async def _ask_across(house: Site, pause_s: float, runs_s: float) -> Counter[int]:
    """Ask as all callers at once, and stop the gateway after ``runs_s`` of work on them."""
    gateway, patience_s = house.gateway, pause_s + patient(20)
    bounds = httpx.Limits(max_connections=CALLERS)
    headers = {"authorization": f"Bearer {gateway.home.key}"}
    async with httpx.AsyncClient(
        base_url=gateway.url, headers=headers, timeout=patience_s, trust_env=False, limits=bounds
    ) as http:
        with stopped(gateway.process.pid):
            asking = [asyncio.create_task(http.post(CHAT, json=BODY)) for _ in range(CALLERS)]
            await asyncio.sleep(patient(0.3))  # what they send waits in the kernel
        await asyncio.sleep(runs_s)
        with stopped(gateway.process.pid):
            await asyncio.sleep(pause_s)
        return Counter(answer.status_code for answer in await asyncio.gather(*asking))


@pytest.mark.parametrize("pause_s", [1.2, 5.0, *(pytest.param(s, marks=pytest.mark.drill) for s in (0.6, 2.0))])
def test_a_pause_of_the_gateway_is_no_evidence(one: Site, faults: FaultTable, pause_s: float) -> None:
    """Forty callers and a neighbour just after hear 200 alone, no circuit opens, and no error budget is spent."""
    heard, after = Counter[int](), Counter[int]()
    for runs_s in ROUNDS_S:
        heard += asyncio.run(_ask_across(one, pause_s, runs_s))
        after += Counter(one.ask("toy").status_code for _ in range(5))
    faults.add(
        f"the gateway stands still for {pause_s} s while {CALLERS} requests open connections, {len(ROUNDS_S)} times",
        f"callers {dict(heard)}, just after {dict(after)}, "
        f"{one.counted(names.BREAKER_CHANGES):.0f} circuits turned, {one.counted(names.PROBES):.0f} probes",
        pause_s,
    )
    assert (set(heard), set(after)) == ({200}, {200})
    assert one.counted(names.BREAKER_CHANGES) == 0
    assert one.counted(names.TIER_REQUESTS) == one.counted(names.TIER_REQUESTS, outcome="ok")


def test_a_refused_port_is_evidence_at_once(one: Site) -> None:
    """The kernel's word opens the circuit with the first request, and the version is refused early."""
    began = time.monotonic()
    for engine in one.engines.values():
        engine.close()
    assert one.ask("toy").status_code in {502, 503}
    until("its circuit is open", lambda: one.counted(names.BREAKERS_OPEN, level="worker") == 1, within_s=2)
    assert time.monotonic() - began < patient(4)
