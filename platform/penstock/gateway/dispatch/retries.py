"""How much retrying is allowed: a share of the live traffic, and no more.

Trade-off: a retry hides one failure from one caller and adds load just when there is less capacity. A bucket fed by
requests keeps the growth of traffic at ``1 + ratio`` in an outage that lasts (SRE book, chapter 21), while its
capacity lets all requests of one lost worker move at once. The floor keeps retries possible at low traffic.

No tenant can spend what all share: whoever took the retries of late must leave up to half of the bucket to the others,
in proportion to its part of them. Who took none may take the last one; who is alone has half of a bucket that is made
twice as large for that.
"""

import math
import random

from penstock.domain.ids import TenantId

KEPT_RATIO = 0.5
"""The part of the bucket that the only one who retries must leave."""
_HALF_LIFE_S = 10.0
_FORGOTTEN = 0.05


class RetryBudget:
    """Token bucket: each request puts ``ratio`` in, each retry takes 1 out."""

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
        """A request came."""
        level = self.level + self._ratio
        self.level = min(self._capacity, level)

    def allows(self, who: TenantId, now: float) -> bool:
        """Tell whether this tenant may retry at monotonic second ``now``."""
        self._pass(now)
        return self.level >= 1.0 + self._to_leave(who)

    def withdraw(self, who: TenantId, now: float) -> bool:
        """Take one retry at monotonic second ``now``; False where the budget, or this tenant's part of it, is spent."""
        if not self.allows(who, now):
            return False
        self.level -= 1.0
        self._of[who] = self._of.get(who, 0.0) + 1.0
        self._taken += 1.0
        return True

    def _to_leave(self, who: TenantId) -> float:
        """Return what this tenant must leave in the bucket: nothing while it is nearly full."""
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
    """Return the wait before another round over the same workers: exponential, full jitter (AWS Builders' Library)."""
    return chance.uniform(0.0, min(most_s, first_s * 2.0 ** min(attempt, 16)))
