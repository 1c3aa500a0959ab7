"""Followers of an answer under one idempotency key, when its first caller leaves."""

import asyncio
from contextlib import suppress

import pytest

from penstock.connectors.memory.answers import MemoryAnswers
from penstock.domain.clock import SystemClock
from penstock.domain.errors import ClientGone
from penstock.domain.outcome import Outcome
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.idempotent import Once
from tests.support.gateways.readers import Leaving
from tests.support.gateways.toy import Toy
from tests.support.samples.calls import call as a_call


@pytest.mark.parametrize("repeats", [0, 1, 2])
async def test_an_answer_is_made_once_whoever_leaves(repeats: int) -> None:
    """It goes on without its first caller and without those that follow it, and a later repeat gets all of it."""
    leave = asyncio.Event()
    asked: list[str] = []

    async def relay(call: Call, reply: Reply) -> Outcome:
        asked.append(call.request.id)
        stopped = asyncio.Event()
        reply.watch(on_gone=stopped.set, on_pause=lambda: None, on_resume=lambda: None)
        reply.start(200, [(b"content-type", b"text/event-stream")])
        reply.write(b"data: 1\n\n")
        await leave.wait()
        assert not stopped.is_set()
        assert not reply.gone
        reply.write(b"data: 2\n\n")
        reply.finish()
        return Outcome.OK

    store, toy = MemoryAnswers(SystemClock()), Toy(relay)
    here, there, last = Once(toy, store), Once(toy, store), Leaving()
    replies = [Leaving() for _ in range(1 + repeats)]
    async with asyncio.TaskGroup() as group:
        for number, reply in enumerate(replies):
            group.create_task(_until_gone(there if number else here, reply))
            await reply.heard.wait()
        for reply in replies:
            reply.leave()
        leave.set()
    await there.serve(Progress(a_call(idempotency_key="k")), last)
    assert last.sent == b"data: 1\n\ndata: 2\n\n"
    assert len(asked) == 1


async def _until_gone(once: Once, reply: Leaving) -> None:
    with suppress(ClientGone):
        await once.serve(Progress(a_call(idempotency_key="k")), reply)


async def test_an_answer_that_is_not_kept_ends_with_its_caller() -> None:
    """Beyond the bound of a record no repeat could get the rest."""
    stopped = asyncio.Event()

    async def relay(call: Call, reply: Reply) -> Outcome:
        del call
        reply.watch(on_gone=stopped.set, on_pause=lambda: None, on_resume=lambda: None)
        reply.start(200, [(b"content-type", b"text/event-stream")])
        while not stopped.is_set():
            reply.write(b"data: 1\n\n")
            await asyncio.sleep(0)
        return Outcome.CANCELLED

    once, reply = Once(Toy(relay), MemoryAnswers(SystemClock()), max_bytes=1_000), Leaving()
    serving = asyncio.create_task(once.serve(Progress(a_call(idempotency_key="k")), reply))
    await reply.heard.wait()
    reply.leave()
    await serving
    assert stopped.is_set()
