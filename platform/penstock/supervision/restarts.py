"""When a dead process is started again, and when it is given up.

Trade-off: waiting longer after each death keeps a broken process from burning the machine, and keeps a healthy one
that died by accident away for longer; so the first restart is almost at once and the wait only then doubles.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """``max_deaths`` within ``window_s`` is a crash loop."""

    first_wait_s: float = 0.1
    max_wait_s: float = 10.0
    max_deaths: int = 5
    window_s: float = 60.0

    def wait_s(self, deaths: Sequence[float], now: float) -> float | None:
        """Return how long to wait before the next start; None where it is a crash loop.

        ``deaths`` and ``now`` are monotonic seconds; the last death counts.
        """
        recent = sum(1 for death in deaths if now - death <= self.window_s)
        if recent > self.max_deaths:
            return None
        return min(self.max_wait_s, self.first_wait_s * 2.0 ** max(0, recent - 1))
