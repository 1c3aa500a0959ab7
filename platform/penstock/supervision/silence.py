"""Whether a running process still answers: a hung one is found by questions that it lets pass.

Time limits are awake ones: a supervisor that was stopped or starved itself judges nobody. On a starved machine a healthy process may be silent for half a minute, so only one that the kernel says is
stopped is ended soon. Trade-off: a process that runs and answers nothing is ended after two minutes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from penstock.domain.clock import Clock
from penstock.lateness import timeout

EVERY_S = 3.0
WITHIN_S = 3.0
"""A local process answers within milliseconds; one on a starved machine within a second or two."""
MOST_MISSED = 3
"""Questions in a row that a stopped process lets pass."""
MOST_SLOW = 20
"""Questions in a row that any process lets pass: two minutes."""
STOPPED = ("T", "t")
"""States of a process that a signal or a debugger has stopped (proc(5))."""
Asks = Callable[[], Awaitable[object]]


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in STOPPED
    except OSError:
        return False


async def until_silent(
    ask: Asks,
    clock: Clock,
    stopped: Callable[[], bool],
    *,
    every_s: float = EVERY_S,
    within_s: float = WITHIN_S,
) -> float:
    """Return the seconds since the last answer, once several questions in a row have got none."""
    missed, answered_at = 0, clock.monotonic()
    while missed < MOST_MISSED or (missed < MOST_SLOW and not stopped()):
        await asyncio.sleep(every_s)
        answers = await _answers(ask, within_s)
        missed = 0 if answers else missed + 1
        answered_at = clock.monotonic() if answers else answered_at
    return clock.monotonic() - answered_at


async def _answers(ask: Asks, within_s: float) -> bool:
    try:
        async with timeout(within_s):
            await ask()
    except TimeoutError:
        return False
    return True
