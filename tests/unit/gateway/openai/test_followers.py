"""Followers of an answer under one idempotency key, when its first caller leaves."""

import asyncio
from contextlib import nullcontext

import pytest

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.domain.clock import SystemClock
from penstock.domain.errors import ClientGone, StreamBroken
from penstock.domain.outcome import Outcome
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.idempotent import Once
from tests.support.gateways.readers import Leaving
from tests.support.gateways.toy import Toy
from tests.support.samples.calls import call as a_call


@pytest.mark.parametrize("followers", [0, 1, 2])
async def test_followers_survive_the_first_callers_leaving(followers: int) -> None:
    """The answer goes on while one of them reads; the last one's leaving ends it, as the only caller's does."""
    leave, stopped = asyncio.Event(), asyncio.Event()

    async def relay(call: Call, reply: Reply) -> Outcome:
        reply.watch(on_gone=stopped.set, on_pause=stopped.clear, on_resume=lambda: None)
        reply.start(200, [(b"content-type", b"text/event-stream")])
        reply.write(b"data: 1\n\n")
        await leave.wait()
        if stopped.is_set() or reply.gone:
            return Outcome.CANCELLED
        reply.write(b"data: 2\n\n")
        reply.finish()
        return Outcome.OK

    once, replies = Once(Toy(relay), MemoryAnswers(SystemClock())), [Leaving() for _ in range(1 + followers)]
    async with asyncio.TaskGroup() as group:
        for reply in replies:
            group.create_task(once.serve(Progress(a_call(idempotency_key="k")), reply))
            await reply.heard.wait()
        replies[0].leave()
        assert stopped.is_set() == (followers == 0)
        leave.set()
    assert [reply.sent for reply in replies[1:]] == [b"data: 1\n\ndata: 2\n\n"] * followers


async def test_the_last_followers_leaving_ends_the_answer() -> None:
    """Nobody reads it any more: the relay hears that its client is gone."""
    stopped = asyncio.Event()

    async def relay(call: Call, reply: Reply) -> Outcome:
        reply.watch(on_gone=stopped.set, on_pause=stopped.clear, on_resume=lambda: None)
        reply.start(200, [(b"content-type", b"text/event-stream")])
        reply.write(b"data: 1\n\n")
        await stopped.wait()
        return Outcome.CANCELLED

    once, first, second = Once(Toy(relay), MemoryAnswers(SystemClock())), Leaving(), Leaving()
    serving = asyncio.create_task(once.serve(Progress(a_call(idempotency_key="k")), first))
    await first.heard.wait()
    following = asyncio.create_task(once.serve(Progress(a_call(idempotency_key="k")), second))
    await second.heard.wait()
    first.leave()
    assert not stopped.is_set()
    second.leave()
    with pytest.raises(ClientGone):
        await following
    await serving
    assert stopped.is_set()


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_follower_at_another_gateway_is_answered_or_told(is_begun: bool) -> None:
    """The first caller's leaving ends its answer: a follower without a byte is answered anew, another hears so."""
    stopped, began, head = asyncio.Event(), asyncio.Event(), [(b"content-type", b"text/event-stream")]

    async def relay(call: Call, reply: Reply) -> Outcome:
        if began.is_set():
            reply.start(200, head)
            reply.write(b"data: anew\n\n")
            reply.finish()
            return Outcome.OK
        reply.watch(on_gone=stopped.set, on_pause=stopped.clear, on_resume=lambda: None)
        if is_begun:
            reply.start(200, head)
            reply.write(b"data: 1\n\n")
        began.set()
        await stopped.wait()
        return Outcome.CANCELLED

    store, toy = MemoryAnswers(SystemClock()), Toy(relay)
    here, there, first, second = Once(toy, store), Once(toy, store), Leaving(), Leaving()
    serving = asyncio.create_task(here.serve(Progress(a_call(idempotency_key="k")), first))
    await began.wait()
    following = asyncio.create_task(there.serve(Progress(a_call(idempotency_key="k")), second))
    await (second.heard.wait() if is_begun else asyncio.sleep(0.05))  # it follows: nothing says so
    first.leave()
    await serving
    with pytest.raises(StreamBroken) if is_begun else nullcontext():
        await following
    assert second.sent == (b"data: 1\n\n" if is_begun else b"data: anew\n\n")
