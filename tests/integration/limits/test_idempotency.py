"""Idempotency keys hold across gateways, for whole answers and streams, and after the answering gateway's death
(A8).
"""

import asyncio
from collections.abc import Iterator

import pytest

from tests.integration.limits.conftest import PLANS
from tests.support.gateways.shared_limits import GATEWAYS, Fleet, fleet, statuses

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run a fleet with a database: answers are sealed under tenants' keys, which are rows there."""
    with fleet(tmp_path_factory.mktemp("once"), PLANS, has_database=True) as running:
        yield running


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


async def test_an_answer_is_made_and_charged_once_whoever_leaves(gateways: Fleet) -> None:
    """Neither a follower's nor the first caller's leaving stops the engine, and a repeat elsewhere gets the answer."""
    gateways.engine.forget()
    gateways.engine.behave(step_ms=20)
    headers = {"idempotency-key": "leaves"}
    first = asyncio.create_task(gateways.ask("once", 0, headers=headers, stream=True, max_tokens=100))
    await asyncio.sleep(0.5)
    follower = asyncio.create_task(gateways.ask("once", 1, headers=headers, stream=True, max_tokens=100))
    await asyncio.sleep(0.3)
    follower.cancel()
    first.cancel()
    again = await gateways.ask("once", 2, headers=headers, stream=True, max_tokens=100)
    gateways.engine.behave()
    assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert again.text.endswith("data: [DONE]\n\n")
    assert (gateways.engine.stats["requests"], gateways.engine.stats["aborted"]) == (1, 0)
