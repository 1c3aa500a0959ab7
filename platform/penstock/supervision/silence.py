"""Whether a running process still answers: a hung one is found by questions that it lets pass.

A question that ended late by our own doing is no evidence: a supervisor that was stopped or starved itself judges
nobody. Trade-off: a process that answers within three questions is left alone, however slow it is.
"""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.domain.clock import Clock

EVERY_S = 3.0
WITHIN_S = 3.0
"""A local process answers within milliseconds; one on a starved machine within a second or two."""
LATE_S = 0.5
"""A question that took so much longer than its time was held up here."""
MOST_MISSED = 3
Asks = Callable[[], Awaitable[object]]


async def until_silent(ask: Asks, clock: Clock, *, every_s: float = EVERY_S, within_s: float = WITHIN_S) -> float:
    """Return the seconds since the last answer, once several questions in a row have got none."""
    missed, answered_at = 0, clock.monotonic()
    while missed < MOST_MISSED:
        began = clock.monotonic()
        await asyncio.sleep(every_s)
        answers = await _answers(ask, within_s)
        now = clock.monotonic()
        if answers:
            missed, answered_at = 0, now
        elif now - began <= every_s + within_s + LATE_S:
            missed += 1
    return clock.monotonic() - answered_at


async def _answers(ask: Asks, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await ask()
    except TimeoutError:
        return False
    return True
