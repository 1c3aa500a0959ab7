"""A caller who has left before an attempt is made: no engine hears of it, at the first attempt or at a later one."""

import asyncio
from dataclasses import replace

import pytest

from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import InferenceRequest
from penstock.gateway.dispatch import dispatcher
from tests.support.engines.stub import Behaviour
from tests.support.gateways.dispatch import FakeReply, corridor, stream_request, unary_request, until

ASKED = [stream_request(), unary_request()]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("gone", [True, False])
async def test_who_has_left_is_not_sent(asked: InferenceRequest, gone: bool) -> None:
    """Storms of half-closed connections cost engines nothing: those alone are sent who still wait."""
    async with corridor() as way:
        answer = await way.ask(replace(asked), FakeReply(gone=gone))
        assert way.call is not None
        sent = (len(way.picked), way.call.attempts.count, len(way.call.attempts.trail), way.stubs[0].stats.requests)
    assert sent == ((0, 0, 0, 0) if gone else (1, 1, 1, 1))
    assert answer.outcome is (Outcome.CANCELLED if gone else Outcome.OK)


@pytest.mark.parametrize("asked", ASKED)
async def test_who_leaves_between_two_attempts_is_not_sent_again(
    asked: InferenceRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the wait before another round the caller leaves: it costs no attempt, no retry and no connection."""
    monkeypatch.setattr(dispatcher, "backoff_s", lambda *_: 0.2)
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(mode="refuse", reason="overloaded")
        reply, budget = FakeReply(), way.budget.level
        task = asyncio.create_task(way.ask(asked, reply))
        await until(
            lambda: way.call is not None and bool(way.call.attempts.trail) and way.call.attempts.trail[-1].failed != ""
        )
        reply.leave()
        answer = await task
        assert way.call is not None
        assert (answer.outcome, way.call.attempts.count, way.stubs[0].stats.requests) == (Outcome.CANCELLED, 1, 1)
        assert way.budget.level == budget


async def test_who_leaves_while_the_worker_is_connected_to_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stays for the next caller, and the worker reads nothing of who has left."""
    async with corridor() as way:
        connect, reply = way.client._connect, FakeReply()

        async def slowly(url: str) -> object:
            connection = await connect(url)
            reply.leave()
            return connection

        monkeypatch.setattr(way.client, "_connect", slowly)
        answer = await way.ask(unary_request(), reply)
        assert answer.outcome is Outcome.CANCELLED
        assert way.client.idle(way.stubs[0].url) == 1
        await way.ask(unary_request(), FakeReply())
        assert way.stubs[0].stats.requests == 1
