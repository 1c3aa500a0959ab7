"""The retry budget, and the time at which each refusing worker may be asked again. Pure.

Trade-off: a retry hides one failure but adds load when capacity is reduced. A bucket that is filled by requests bounds
traffic at ``1 + ratio`` in a lasting outage (SRE book, chapter 21).
"""

import math
import random

from penstock.domain.errors import PenstockError
from penstock.domain.ids import TenantId, WorkerId

KEPT_RATIO = 0.5
"""The part of the bucket that a tenant must leave if it alone retries."""
_HALF_LIFE_S = 10.0
_FORGOTTEN = 0.05


class RetryBudget:
    """Each request adds ``ratio``, each retry takes 1."""

    __slots__ = ("_at", "_capacity", "_floor_per_s", "_of", "_ratio", "_taken", "level")

    def __init__(self, *, ratio: float, capacity: float = 200.0, floor_per_s: float = 1.0, now: float = 0.0) -> None:
        self._ratio = ratio
        self._capacity = capacity
        self._floor_per_s = floor_per_s
        self._at = now
        self._taken = 0.0
        self._of: dict[TenantId, float] = {}
        self.level = capacity

    def deposit(self) -> None:
        level = self.level + self._ratio
        self.level = min(self._capacity, level)

    def allows(self, who: TenantId, now: float) -> bool:
        self._pass(now)
        return self.level >= 1.0 + self._to_leave(who)

    def withdraw(self, who: TenantId, now: float) -> bool:
        if not self.allows(who, now):
            return False
        self.level -= 1.0
        self._of[who] = self._of.get(who, 0.0) + 1.0
        self._taken += 1.0
        return True

    def _to_leave(self, who: TenantId) -> float:
        """Retries that this tenant must leave, at most all but one."""
        part = self._of.get(who, 0.0) / self._taken if self._taken > _FORGOTTEN else 0.0
        return min(part * KEPT_RATIO * self._capacity, max(0.0, self._capacity - 1.0))

    def _pass(self, now: float) -> None:
        elapsed_s = max(0.0, now - self._at)
        self._at = now
        self.level = min(self._capacity, self.level + elapsed_s * self._floor_per_s)
        keep = math.exp2(-elapsed_s / _HALF_LIFE_S)
        self._taken *= keep
        for who in list(self._of):
            self._of[who] *= keep
            if self._of[who] < _FORGOTTEN:
                self._taken = max(0.0, self._taken - self._of.pop(who))


def backoff_s(attempt: int, chance: random.Random, *, first_s: float = 0.05, most_s: float = 1.0) -> float:
    """Return the wait before another round: exponential, full jitter (AWS Builders' Library)."""
    return chance.uniform(0.0, min(most_s, first_s * 2.0 ** min(attempt, 16)))


SHORT_S = 1.0
"""A wait that the gateway spends itself; a longer one is returned as ``Retry-After``."""


class Doors:
    __slots__ = ("_opens_at", "_said")

    def __init__(self) -> None:
        self._opens_at: dict[WorkerId, float] = {}
        self._said: dict[WorkerId, PenstockError] = {}

    def refused(self, worker: WorkerId, error: PenstockError, now: float) -> None:
        self._opens_at[worker] = now + (error.retry_after_s or 0.0)
        self._said[worker] = error

    def shut(self, workers: frozenset[WorkerId], now: float) -> frozenset[WorkerId]:
        return frozenset(worker for worker in workers if self._opens_at.get(worker, now) > now)

    def soonest(self, workers: frozenset[WorkerId]) -> PenstockError | None:
        refused = [worker for worker in workers if worker in self._said]
        return self._said[min(refused, key=self._opens_at.__getitem__)] if refused else None

    def wait_s(self, workers: frozenset[WorkerId], now: float) -> float:
        return max(0.0, min((self._opens_at.get(worker, now) for worker in workers), default=now) - now)
