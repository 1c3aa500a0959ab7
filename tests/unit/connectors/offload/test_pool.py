"""The pool with real children: a program of a few lines that answers, sleeps or dies as its frame says."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.connectors.offload.pool import OffloadPool, Program
from penstock.domain.errors import Overloaded
from tests.support.gateways.server import on_uvloop

CHILD = """
import os, sys, time
from penstock.connectors.offload.pool import serve
def answer(frame):
    if frame == b"die":
        os._exit(1)
    if frame == b"hang":
        time.sleep(60)
    return (b"%d " % os.getpid(), frame)
serve(sys.stdin.buffer, sys.stdout.buffer, answer)
"""


@asynccontextmanager
async def pool(processes: int = 1, patience_s: float = 30.0) -> AsyncIterator[OffloadPool]:
    program = Program(arguments=(sys.executable, "-c", CHILD), environment=os.environ)
    made = OffloadPool(program, processes=processes, patience_s=patience_s)
    try:
        yield made
    finally:
        await made.close()


@on_uvloop
async def test_children_answer_whatever_the_size() -> None:
    """Frames of megabytes come back whole, from as few children as there may be."""
    async with pool() as children:
        await children.warm()
        large = os.urandom(3 << 20)
        answers = await asyncio.gather(*[children.ask("a", (b"x", large)) for _ in range(4)])
        assert {answer.partition(b" ")[2] for answer in answers} == {b"x" + large}
        assert len({answer.partition(b" ")[0] for answer in answers}) == 1


@on_uvloop
async def test_a_child_that_dies_takes_its_own_work_with_it_and_no_other() -> None:
    """The next one is done by its successor."""
    async with pool() as children:
        results = await asyncio.gather(
            children.ask("a", (b"die",)), children.ask("b", (b"fine",)), return_exceptions=True
        )
        assert isinstance(results[0], EOFError)
        assert isinstance(results[1], bytes)
        assert results[1].endswith(b" fine")


@on_uvloop
async def test_work_that_takes_too_long_is_given_up() -> None:
    """Finding 6: no body holds a child for long."""
    async with pool(patience_s=0.3) as children:
        with pytest.raises(Overloaded):
            await children.ask("a", (b"hang",))


@on_uvloop
async def test_who_has_left_costs_no_turn() -> None:
    """Work that nobody waits for any more is not begun."""
    async with pool() as children:
        first = asyncio.create_task(children.ask("a", (b"1",)))
        left = asyncio.create_task(children.ask("a", (b"die",)))
        await asyncio.sleep(0)
        left.cancel()
        assert (await first).endswith(b" 1")
        assert (await children.ask("a", (b"2",))).endswith(b" 2")
