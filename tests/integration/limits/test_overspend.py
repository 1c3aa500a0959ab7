"""A hard budget holds against a trained estimate, for whole answers as for streams, over four gateways (finding 5)."""

import asyncio
import json

import pytest
import redis

from tests.integration.limits.conftest import OVERSPEND_FOR
from tests.support.gateways.shared_limits import Fleet, statuses

pytestmark = pytest.mark.integration

TRAINING, ATTACK, ASKED, STEP_S = 400, 120, 500, 0.005
TOP_UP = 2 * 0.5 / STEP_S
"""Two rounds of the stub's pace: what a running request's reservation grows by."""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streams"])
async def test_a_trained_expectation_does_not_open_a_budget(gateways: Fleet, *, stream: bool) -> None:
    """After 400 answers of one token, 120 of 500 at once spend the budget and one top-up each of those that ran."""
    tenant = "trained-streams" if stream else "trained"
    for _ in range(TRAINING // 40):
        trained = await gateways.burst(tenant, 40, max_tokens=1)
        assert set(statuses(trained)) == {200}
    gateways.engine.behave(whole_step_ms=STEP_S * 1e3, step_ms=STEP_S * 1e3)
    gateways.engine.forget()
    answers = await gateways.burst(tenant, ATTACK, max_tokens=ASKED, stream=stream)
    await asyncio.sleep(0.5)
    ran = gateways.engine.stats["requests"]
    spent = TRAINING + sum(gateways.engine.made.values())
    assert ran < ATTACK
    assert spent <= OVERSPEND_FOR + ran * TOP_UP
    ended = [answer for answer in answers if "budget" in answer.text]
    assert ended
    if not stream:
        reached = [json.loads(a.text)["error"] for a in answers if a.status == 402 and "billed" in a.text]
        assert reached
        assert {(error["code"], error["retryable"]) for error in reached} == {("budget_reached", False)}
    await _bill_is(gateways, tenant, spent)


async def _bill_is(gateways: Fleet, tenant: str, spent: int) -> None:
    """Check that the budget's counter comes to what the engine made: nothing is free, nothing is held for ever."""
    with redis.Redis.from_url(gateways.redis.url, decode_responses=True) as store:
        (key,) = (name for name in store.keys(f"*tenant:{tenant}:spend:*") if not name.endswith(":due"))

        def counted() -> dict[str, int]:
            return {name: int(store.hget(key, name) or 0) for name in ("spent", "held")}

        for _ in range(60):
            if counted() == {"spent": spent, "held": 0}:
                return
            await asyncio.sleep(0.1)
        assert counted() == {"spent": spent, "held": 0}
