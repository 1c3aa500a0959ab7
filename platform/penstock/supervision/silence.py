"""Detects a hung process, which runs but leaves several probes in a row unanswered.

Time limits are awake seconds: a supervisor that was itself suspended finds no hang. On an overloaded machine a healthy
process may be silent for half a minute, so only a process that the kernel reports as stopped is ended early.

Trade-off: a process that runs and answers nothing is ended after two minutes.
"""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.lateness.awake import timeout

EVERY_S = 3.0
WITHIN_S = 3.0
"""Timeout of a probe: a local process answers within milliseconds; on an overloaded machine within a second or two."""
MOST_MISSED = 3
"""Probes in a row that a stopped process may miss."""
MOST_SLOW = 20
"""Probes in a row that any process may miss: two minutes."""
Asks = Callable[[], Awaitable[object]]


async def until_silent(
    ask: Asks, stopped: Callable[[], bool], *, every_s: float = EVERY_S, within_s: float = WITHIN_S
) -> float:
    """Several probes in a row were left unanswered for the returned seconds."""
    missed = 0
    while missed < MOST_MISSED or (missed < MOST_SLOW and not stopped()):
        await asyncio.sleep(every_s)
        missed = 0 if await _answers(ask, within_s) else missed + 1
    return missed * (every_s + within_s)


async def _answers(ask: Asks, within_s: float) -> bool:
    try:
        async with timeout(within_s):
            await ask()
    except TimeoutError:
        return False
    return True
