import asyncio
import time
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from penstock.lateness.awake import GRACE_S, MOST_GAP_S, TICK_S, AwakeClock, AwakeTime, awake_time, timeout
from tests.support.clock import ManualClock
from tests.support.patience import patient

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
Loop = Callable[[], asyncio.AbstractEventLoop]


def run(new_loop: Loop, work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work)


def test_a_gap_counts_for_little_however_long() -> None:
    """Awake seconds follow the clock while it looks in time, and leave out what it slept."""
    clock = ManualClock()
    awake = AwakeTime(clock.monotonic)
    for _ in range(10):
        clock.advance(TICK_S)
        awake.look()
    assert awake.seconds() == pytest.approx(10 * TICK_S)
    clock.advance(3600.0)
    assert awake.seconds() == pytest.approx(10 * TICK_S + MOST_GAP_S)
    awake.look()
    assert awake.seconds() == pytest.approx(10 * TICK_S + MOST_GAP_S)


def test_a_look_tells_its_lateness() -> None:
    """Whoever shows the loop's lag gets it from the same look."""
    clock = ManualClock()
    late: list[float] = []
    awake = AwakeTime(clock.monotonic)
    awake.on_look = late.append
    for gap_s in (TICK_S, 1.2):
        clock.advance(gap_s)
        awake.look()
    assert late == pytest.approx([0.0, 1.2 - TICK_S])


@LOOPS
def test_a_limit_passes_on_a_loop_that_is_on_time(new_loop: Loop) -> None:
    """It ends its block as asyncio's does, with ``TimeoutError``."""

    async def wait() -> None:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with timeout(0.2):
                await asyncio.sleep(30)
        assert 0.19 <= time.monotonic() - began < patient(0.2 + GRACE_S + 1.0)

    run(new_loop, wait())


@LOOPS
@pytest.mark.parametrize("before_s", [0.0, 0.15], ids=["at once", "just before its end"])
def test_a_pause_is_not_counted(new_loop: Loop, before_s: float) -> None:
    """What comes while the loop stands still is read, though the limit has passed by the clock on the wall."""

    async def wait() -> None:
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        loop.call_later(before_s, time.sleep, 0.6)
        loop.call_later(before_s + 0.7, came.set)
        async with timeout(0.2):
            await came.wait()

    run(new_loop, wait())


@LOOPS
def test_a_loop_that_is_always_late_still_ends(new_loop: Loop) -> None:
    """Steps of 0.15 s, one after another, make a limit longer and not endless."""

    async def work() -> None:
        while True:
            time.sleep(0.15)  # noqa: ASYNC251  that is the lag
            await asyncio.sleep(0)

    async def wait() -> None:
        busy = asyncio.create_task(work())
        try:
            with pytest.raises(TimeoutError):
                async with timeout(0.2):
                    await asyncio.sleep(60)
        finally:
            busy.cancel()

    began = time.monotonic()
    run(new_loop, wait())
    assert time.monotonic() - began < patient(5)


async def test_no_limit_is_none() -> None:
    """None waits as long as it takes, and an error inside stays what it is."""

    async def fail() -> None:
        async with timeout(None):
            await asyncio.sleep(0)
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        await fail()


async def test_a_cancellation_from_outside_stays_one() -> None:
    """Whoever cancels the task hears of a cancellation, not of a limit."""

    async def wait() -> None:
        async with timeout(30):
            await asyncio.sleep(30)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_clock_of_awake_seconds() -> None:
    """A policy that is given this clock does not see the pause; each loop has one awake time."""
    clock, began = AwakeClock(), AwakeClock().monotonic()
    time.sleep(0.5)  # noqa: ASYNC251  that is the lag
    assert clock.monotonic() - began <= MOST_GAP_S
    assert awake_time() is awake_time()
