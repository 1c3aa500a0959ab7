"""Limits hold over all gateways together: none over, none lost, whoever dies."""

import asyncio
import json
import math
import time

import pytest

from penstock.gateway.admission.cashier import HOLD_S
from tests.integration.limits.conftest import BUDGET_FOR, REQUESTS_PER_MIN, SHORT_OUTAGE_RPM, SLOTS, TOKENS_PER_MIN
from tests.support.limits_fleet import GATEWAYS, Fleet, statuses, until

pytestmark = pytest.mark.integration


async def test_a_rate_has_no_overshoot_over_four_gateways(gateways: Fleet) -> None:
    """Of 400 requests at once exactly the limit is admitted, and what a bucket refills meanwhile."""
    began = time.monotonic()
    answers = await gateways.burst("rate", 400)
    refilled = math.floor((time.monotonic() - began) * REQUESTS_PER_MIN / 60)
    counts = statuses(answers)
    assert set(counts) == {200, 429}
    assert REQUESTS_PER_MIN <= counts[200] <= REQUESTS_PER_MIN + refilled


async def test_answers_tell_what_is_left_and_refusals_how_long_to_wait(gateways: Fleet) -> None:
    """``x-ratelimit-*`` with every answer, ``Retry-After`` and the reason with every refusal."""
    given = await gateways.ask("once")
    told = {name: given.headers[f"x-ratelimit-{name}"] for name in ("limit-requests", "limit-tokens")}
    assert told == {"limit-requests": "1000", "limit-tokens": "1000000"}
    for measure in ("requests", "tokens"):
        assert int(given.headers[f"x-ratelimit-remaining-{measure}"]) < int(told[f"limit-{measure}"])
        assert given.headers[f"x-ratelimit-reset-{measure}"]
    answers = await gateways.burst("rate", REQUESTS_PER_MIN + 8)
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    for answer in refused:
        assert 1 <= int(answer.headers["retry-after"]) <= math.ceil(60 / REQUESTS_PER_MIN)
        assert json.loads(answer.text)["error"]["code"] == "rate_limit_exceeded"


async def test_slots_are_never_exceeded_at_the_engine(gateways: Fleet) -> None:
    """However many ask at once through four gateways, the engine never sees more than the plan allows."""
    gateways.engine.forget()
    gateways.engine.behave(delay_ms=300)
    answers = await gateways.burst("slots", 200)
    peak, counts = gateways.engine.stats["peak"], statuses(answers)
    assert set(counts) == {200, 429}
    assert peak == SLOTS


async def test_a_budget_for_k_admits_exactly_k(gateways: Fleet) -> None:
    """200 at once against money for 23: 23 answers, 177 refusals with 402, and no slack for a 24th later."""
    counts = statuses(await gateways.burst("budget", 200))
    assert counts == {200: BUDGET_FOR, 402: 200 - BUDGET_FOR}
    assert statuses(await gateways.burst("budget", 8)) == {402: 8}


async def test_tokens_overshoot_by_less_than_a_round_of_the_running_streams(gateways: Fleet) -> None:
    """Streams that outgrow what was reserved run on until the next round of top-ups, one second, and no longer."""
    step_s, wanted = 0.005, 2000
    gateways.engine.behave(step_ms=step_s * 1e3)
    began = time.monotonic()
    answers = await gateways.burst("tokens", 8, stream=True, max_tokens=wanted)
    took_s = time.monotonic() - began
    streams = [answer.text.count('"content":" the"') for answer in answers if answer.status == 200]
    refilled = took_s * TOKENS_PER_MIN / 60
    over = sum(streams) - TOKENS_PER_MIN - refilled
    bound = len(streams) * 1.0 / step_s
    assert len(streams) >= 3
    assert max(streams) < wanted
    assert over <= bound
    assert all("rate_limit_exceeded" in answer.text for answer in answers)


async def test_slots_of_a_killed_gateway_free_themselves(gateways: Fleet) -> None:
    """Kill -9 with both slots held: others are refused until the hold runs out, and served then."""
    gateways.gateways.append(doomed := gateways.start())
    gateways.engine.behave(mode="freeze", times=2)
    holding = [asyncio.create_task(gateways.ask("killed", GATEWAYS)) for _ in range(2)]
    await asyncio.sleep(1.0)
    assert (await gateways.ask("killed", 0)).status == 429
    doomed.process.kill()
    await asyncio.gather(*holding, return_exceptions=True)
    gateways.gateways.remove(doomed)

    async def served() -> bool:
        return (await gateways.ask("killed", 1)).status == 200

    await until(served, HOLD_S + 1.0)


async def test_with_redis_gone_rates_hold_locally_and_budgets_close(gateways: Fleet) -> None:
    """Each gateway gives the full rate once; tenants with a budget get 503; those without bounds notice nothing."""
    assert (await gateways.ask("outage-budget")).status == 200
    gateways.redis.kill()
    try:
        rated = await gateways.burst("outage-rate", 80)
        budget, free = await gateways.burst("outage-budget", 8), await gateways.burst("free", 40)
        keyed = await gateways.ask("free", headers={"idempotency-key": "k"})
    finally:
        gateways.redis.start()
    by_gateway = [sum(a.status == 200 for a in rated if a.gateway == i) for i in range(GATEWAYS)]
    assert by_gateway == [SHORT_OUTAGE_RPM] * GATEWAYS
    assert statuses(rated)[429] == 80 - SHORT_OUTAGE_RPM * GATEWAYS
    assert statuses(budget) == {503: 8}
    assert statuses(free) == {200: 40}
    assert (keyed.status, json.loads(keyed.text)["error"]["code"]) == (503, "store_unavailable")
    assert (await gateways.ask("outage-budget")).status == 200
