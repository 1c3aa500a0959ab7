"""From needs to a number over time: more workers at once, fewer slowly, never fewer on missing numbers. Pure.

Trade-off: the largest need of the last five minutes sets the number, so the next peak of the same size waits for no
start, and idle workers cost five minutes.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.domain.ids import WorkerId
from penstock.scaling import constants as c


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    workers: int
    deployed: int = 0
    """The number that a person or a rollout set last."""
    needs: tuple[tuple[float, float], ...] = ()
    """Times and needs, each larger than all after it."""
    in_at: float = -math.inf
    ready: int = 0
    ready_at: float = -math.inf
    """When more workers than before began to serve."""
    cordoned: dict[WorkerId, float] = field(default_factory=dict)
    """Since when each has been out of the table."""

    @classmethod
    def adopting(cls, workers: int, now: float, deployed: int = 0) -> Self:
        """Keep the present workers for a window, since a new leader does not know earlier needs."""
        return cls(workers=workers, deployed=deployed, in_at=now + c.IN_WINDOW_S - c.IN_EVERY_S)

    def noting(self, need: float, ready: int, now: float) -> "Pace":
        recent = [(at, kept) for at, kept in self.needs if kept > need and now - at < c.IN_WINDOW_S]
        ready_at = now if ready > self.ready else self.ready_at
        return replace(self, needs=(*recent, (now, need)), ready=ready, ready_at=ready_at)

    def holding(self, ready: int, now: float) -> "Pace":
        """Missing reports are no reason for fewer workers."""
        return self.noting(self.workers / (1.0 + c.DEAD_BAND), ready, now)

    def is_settled(self, now: float) -> bool:
        return now - self.ready_at >= c.JUDGED_S

    def lowest(self) -> int:
        """Return the least number that the largest recent need allows, its dead band included."""
        largest = max((need for _, need in self.needs), default=0.0)
        return math.ceil(largest * (1.0 + c.DEAD_BAND) - 1e-9)

    def steps_in(self, now: float, floor: int) -> int:
        """Return the workers that may go: a tenth of all, none below the floor or the largest recent need."""
        if now - self.in_at < c.IN_EVERY_S:
            return 0
        least = max(floor, self.lowest())
        return max(0, min(self.workers - least, max(1, math.floor(self.workers * c.IN_PART))))
