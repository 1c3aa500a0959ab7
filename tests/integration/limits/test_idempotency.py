"""Idempotency keys hold across gateways, for whole answers and streams, and after the answering gateway's death
(A8).
"""

import asyncio

import pytest

from tests.support.gateways.shared_limits import GATEWAYS, Fleet, statuses, until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("stream", [False, True])
async def test_one_key_through_all_gateways_is_one_engine_request(gateways: Fleet, stream: bool) -> None:
    """Forty at once through four gateways: the engine is asked once, and all read the same bytes."""
    gateways.engine.forget()
    gateways.engine.behave(delay_ms=300, step_ms=10)
    answers = await gateways.burst("once", 40, stream=stream, headers={"idempotency-key": f"crowd-{stream}"})
    assert gateways.engine.stats["requests"] == 1
    assert statuses(answers) == {200: 40}
    assert len({answer.text for answer in answers}) == 1
    assert len({answer.headers["x-penstock-version"] for answer in answers}) == 1
    assert sum("idempotency-replayed" in answer.headers for answer in answers) == 39


async def test_an_answer_outlives_its_gateway(gateways: Fleet) -> None:
    """Kill -9 after the answer: another gateway replays it, and refuses another body under the same key."""
    gateways.gateways.append(doomed := gateways.start())
    headers = {"idempotency-key": "outlives"}
    first = await gateways.ask("once", GATEWAYS, headers=headers)
    await asyncio.sleep(0.3)
    doomed.process.kill()
    gateways.gateways.remove(doomed)
    gateways.engine.forget()
    second = await gateways.ask("once", 0, headers=headers)
    assert (second.status, second.text, second.headers["idempotency-replayed"]) == (200, first.text, "true")
    other = await gateways.ask("once", 1, headers=headers, max_tokens=5)
    assert other.status == 422
    assert gateways.engine.stats["requests"] == 0


async def test_who_leaves_stops_following_and_who_asked_first_frees_the_key(gateways: Fleet) -> None:
    """A follower's leaving changes nothing for the others; the first one's stops the engine, and the next request
    is answered.
    """
    gateways.engine.forget()
    gateways.engine.behave(step_ms=100)
    headers = {"idempotency-key": "leaves"}
    first = asyncio.create_task(gateways.ask("once", 0, headers=headers, stream=True, max_tokens=500))
    await asyncio.sleep(0.5)
    follower = asyncio.create_task(gateways.ask("once", 1, headers=headers, stream=True, max_tokens=500))
    await asyncio.sleep(0.5)
    follower.cancel()
    await asyncio.sleep(0.3)
    assert gateways.engine.stats["running"] == 1
    first.cancel()

    async def stopped() -> bool:
        return bool(gateways.engine.stats["aborted"] == 1)

    await until(stopped, 3.0)
    gateways.engine.behave()
    again = await gateways.ask("once", 2, headers=headers, stream=True, max_tokens=500)
    assert (again.status, gateways.engine.stats["requests"]) == (200, 2)
    assert again.text.endswith("data: [DONE]\n\n")
