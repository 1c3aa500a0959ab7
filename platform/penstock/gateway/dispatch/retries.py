"""How much retrying is allowed: a share of the live traffic, and no more.

Trade-off: a retry hides one failure from one caller and adds load just when there is less capacity. A bucket fed by
requests keeps the growth of traffic at ``1 + ratio`` in an outage that lasts (SRE book, chapter 21), while its
capacity lets all requests of one lost worker move at once. The floor keeps retries possible at low traffic.
"""

import random


class RetryBudget:
    """Token bucket: each request puts ``ratio`` in, each retry takes 1 out."""

    __slots__ = ("_at", "_capacity", "_floor_per_s", "_ratio", "level")

    def __init__(self, *, ratio: float, capacity: float = 100.0, floor_per_s: float = 1.0, now: float = 0.0) -> None:
        """Start full; ``floor_per_s`` retries a second are allowed whatever the traffic."""
        self._ratio = ratio
        self._capacity = capacity
        self._floor_per_s = floor_per_s
        self._at = now
        self.level = capacity

    def deposit(self) -> None:
        """A request came."""
        level = self.level + self._ratio
        self.level = min(self._capacity, level)

    def withdraw(self, now: float) -> bool:
        """Take one retry at monotonic second ``now``; False where the budget is spent."""
        self.level = min(self._capacity, self.level + max(0.0, now - self._at) * self._floor_per_s)
        self._at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


def backoff_s(attempt: int, chance: random.Random, *, first_s: float = 0.05, most_s: float = 1.0) -> float:
    """Return the wait before another round over the same workers: exponential, full jitter (AWS Builders' Library)."""
    return chance.uniform(0.0, min(most_s, first_s * 2.0 ** min(attempt, 16)))
