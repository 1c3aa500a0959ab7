"""Policies for a child that hangs or died: when it counts as hung, the wait before its next start, or giving up.

Time limits of probes are awake seconds: a supervisor that was itself suspended finds no hang. On an overloaded machine
a healthy process may be silent for half a minute, so only one that the kernel reports as stopped is ended early. The
wait doubles after each death.

Trade-off: a process that runs and answers nothing is ended after two minutes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.lateness.awake import timeout


class Cause(StrEnum):
    DIED = "died"
    HUNG = "hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """``why`` is the end of a sentence: how the process died, or for how long it was silent."""

    process: str
    cause: Cause
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Waits and limits of restarts; ``max_deaths`` within ``window_s`` are a crash loop."""

    first_wait_s: float = 0.1
    max_wait_s: float = 10.0
    max_deaths: int = 5
    window_s: float = 60.0

    def wait_s(self, deaths: Sequence[float], now: float) -> float | None:
        """Return the wait before the next start; None for a crash loop.

        ``deaths`` and ``now`` are monotonic seconds; the last death counts.
        """
        recent = sum(1 for death in deaths if now - death <= self.window_s)
        if recent > self.max_deaths:
            return None
        return min(self.max_wait_s, self.first_wait_s * 2.0 ** max(0, recent - 1))


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
