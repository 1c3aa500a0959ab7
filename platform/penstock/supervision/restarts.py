"""Restart policy of a process that died: the wait before its next start, or giving up.

Trade-off: the wait doubles after each death. A broken process does not take the machine's CPU; a healthy one that died
by accident is back almost at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


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
