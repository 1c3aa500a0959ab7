"""Awake seconds: the time in which the event loop ran, and ``asyncio.timeout`` measured in it.

A suspended process (stopped, without CPU, busy with one long step) received nothing meanwhile, and its own silence is
no evidence about others. So a gap between two ticks counts for ``MOST_GAP_S`` at most.

Trade-off: twenty wake-ups a second in each process.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from penstock.domain.clock import SystemClock

TICK_S = 0.05
"""Seconds between two ticks of a loop that is on time."""
MOST_GAP_S = 2 * TICK_S
"""The most awake seconds of a gap between ticks; a tick this late counts as on time."""
GRACE_S = 0.5
"""Enough iterations of a late loop to read the data received meanwhile."""


class AwakeTime:
    """Counts awake seconds from the readings of ``time``; ``on_look`` gets the lateness of each tick, in seconds."""

    __slots__ = ("_at", "_seconds", "_time", "on_look")

    def __init__(self, time: Callable[[], float]) -> None:
        self._time, self._at, self._seconds = time, time(), 0.0
        self.on_look: Callable[[float], None] | None = None

    def seconds(self) -> float:
        """Return awake seconds since an arbitrary origin; they never go backwards."""
        gap_s = self._time() - self._at
        return self._seconds + (min(MOST_GAP_S, gap_s))  # many ask: ``min`` is a call more

    def look(self) -> None:
        now = self._time()
        gap_s, self._at = now - self._at, now
        self._seconds += min(gap_s, MOST_GAP_S)
        if self.on_look is not None:
            self.on_look(max(0.0, gap_s - TICK_S))


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, AwakeTime] = WeakKeyDictionary()


def awake_time() -> AwakeTime:
    """Return the running loop's awake time, which is counted from the first call on."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = AwakeTime(loop.time)
        loop.call_later(TICK_S, _tick, loop, found)
    return found


def _tick(loop: asyncio.AbstractEventLoop, time: AwakeTime) -> None:
    time.look()
    loop.call_later(TICK_S, _tick, loop, time)


class AwakeClock(SystemClock):
    """A ``Clock`` for policies that judge others: its monotonic seconds are awake ones."""

    def monotonic(self) -> float:
        return awake_time().seconds()


class Timer:
    """Calls back after awake seconds, unless cancelled.

    If it fires late, it waits ``GRACE_S`` more, once, so that data received meanwhile are read before a judgement. An
    ended timer refers to nothing, so that its owner leaves no cycle for the garbage collector.
    """

    __slots__ = ("_callback", "_due", "_handle", "_is_extended", "_time", "_until")

    def __init__(self, seconds: float, callback: Callable[[], object]) -> None:
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        self._time = awake_time()
        self._until = self._time.seconds() + seconds
        self._is_extended = False
        self._wait(seconds)

    def cancel(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
        self._callback = _nothing

    def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + max(0.0, seconds)
        self._handle = loop.call_at(self._due, self._look)

    def _look(self) -> None:
        if not self._is_extended and asyncio.get_running_loop().time() - self._due > MOST_GAP_S:
            self._is_extended = True
            self._until = max(self._until, self._time.seconds()) + GRACE_S
        left_s = self._until - self._time.seconds()
        if left_s > 0.0:
            self._wait(left_s)
        else:
            callback = self._callback
            self.cancel()
            callback()


def _nothing() -> None:
    """Do nothing: the callback of an ended timer."""


class timeout:  # noqa: N801  it stands in for asyncio.timeout
    """``asyncio.timeout`` measured by a ``Timer``; None is no limit. The block ends with ``TimeoutError``."""

    __slots__ = ("_inner", "_seconds", "_timer")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._inner = asyncio.timeout(None)
        self._timer: Timer | None = None

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        if self._seconds is not None:
            self._timer = Timer(self._seconds, self.end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._inner.__aexit__(kind, error, trace)

    def end(self) -> None:
        self._inner.reschedule(asyncio.get_running_loop().time())
