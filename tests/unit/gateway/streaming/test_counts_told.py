"""What a worker's gate tells with an answer reaches the bill, and no client."""

import asyncio

import pytest

from penstock.domain.errors import BudgetReached, LimitReached, OverBudget, OverLimit, PenstockError
from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import Api
from tests.support.engines.stub import Behaviour
from tests.support.gateways.dispatch import FakeReply, corridor, stream_request, unary_request, until

USED = Used(prompt_tokens=11, output_tokens=5, sequences=1, prompts=1)


@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_streams_count_is_taken_out(pieces: int) -> None:
    """The line in front of the last event is read and dropped, however its bytes were cut on the way."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(pieces=pieces)
        reply = FakeReply()
        answer = await way.ask(stream_request(5, include_usage=True), reply)
        assert way.call is not None
        assert way.call.attempts.used == USED
    assert answer.outcome is Outcome.OK
    assert answer.said is not None
    assert b"penstock-report" not in reply.body
    assert reply.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
async def test_a_whole_answers_count_is_in_its_head(api: Api) -> None:
    """It is taken from there, and the client's head has none."""
    async with corridor() as way:
        reply = FakeReply()
        await way.ask(unary_request(5, api), reply)
        assert way.call is not None
        assert way.call.attempts.used == USED
    assert b"x-penstock-report" not in reply.headers


async def test_what_an_engine_only_announced_is_no_last_word() -> None:
    """Finding 4: an account that came before the end is a lower bound; what went by counts where it is more."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(step_ms=5)
        reply = FakeReply()
        asking = asyncio.create_task(way.ask(stream_request(500), reply))
        await until(lambda: reply.body.count(b" the") >= 3)
        reply.leave()
        answer = await asking
        assert way.call is not None
        assert way.call.attempts.used is None, "its worker is to be asked"
    assert (answer.said, answer.usage.exact) == (None, False)
    assert answer.usage.output_tokens >= 3


@pytest.mark.parametrize(("error", "kind"), [(OverBudget, BudgetReached), (OverLimit, LimitReached)])
async def test_a_limit_ends_a_whole_answer(error: type[PenstockError], kind: type[PenstockError]) -> None:
    """Finding 5: an answer in one piece that can't be topped up is ended at its engine, and says what is billed."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(whole_step_ms=5)
        asking = asyncio.create_task(way.ask(unary_request(5000), FakeReply()))
        await until(lambda: way.stubs[0].stats.running == 1)
        assert way.lease is not None
        assert way.lease.end_early is not None
        way.lease.end_early(error("the tenant's money is gone"))
        with pytest.raises(kind, match=r"money is gone; the answer was ended, and .* is billed"):
            await asking
        await until(lambda: way.stubs[0].stats.aborted == 1)
        assert way.call is not None
        assert way.call.attempts.used is None
