"""Bounds of concurrent submits: one tenant leaves room for others, and a refusal tells an honest wait."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from penstock.domain.errors import OverLimit, Overloaded
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import JobId
from penstock.domain.jobs.job import JobState, Reason
from penstock.gateway.deferred.jobs import told
from penstock.gateway.deferred.submits import Submits
from penstock.intake.turns import StartTurns
from tests.support.clock import ManualClock
from tests.support.jobs.stores import new
from tests.twins.job_rows import stored

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


async def test_a_flood_of_one_tenant_leaves_room_for_another() -> None:
    """It gets half of the room; the next ones get less, and each is told what it has too much of."""
    clock = ManualClock()
    submits = Submits(StartTurns(clock.monotonic), clock, 8)
    async with AsyncExitStack() as inside:
        for _ in range(4):
            await inside.enter_async_context(submits.one(A))
        with pytest.raises(OverLimit) as mine:
            await inside.enter_async_context(submits.one(A))
        assert (mine.value.reason, (mine.value.retry_after_s or 0.0) > 0.0) == ("tenant_submits", True)
        for tenant in (B, B, C):
            await inside.enter_async_context(submits.one(tenant))
        with pytest.raises(Overloaded):
            await inside.enter_async_context(submits.one(C))
    async with submits.one(A):
        pass


async def test_the_wait_follows_what_submits_take() -> None:
    """After slow ones the wait is longer, and a failed one gives its room back."""
    clock = ManualClock()
    submits = Submits(StartTurns(clock.monotonic), clock, 2)

    async def slow() -> None:
        async with submits.one(A):
            clock.advance(3.0)
            raise asyncio.CancelledError

    for _ in range(60):
        with pytest.raises(asyncio.CancelledError):
            await slow()
    async with submits.one(A):
        with pytest.raises(OverLimit) as refused:
            async with submits.one(A):
                pass
    assert refused.value.retry_after_s == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(("code", "says"), [("loses_workers", "three minutes"), ("engine_error", "once the cause")])
def test_a_dead_letter_names_its_remedy(code: str, says: str) -> None:
    """A request that loses workers is refused for a while: a replay at once would end at once."""
    dead = replace(stored(new("job_1"), JobId(1)), state=JobState.FAILED, reason=Reason.DEAD_LETTER, error=code)
    assert says in str(told(dead)["error"])
