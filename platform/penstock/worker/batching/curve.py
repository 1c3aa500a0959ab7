"""Compute time of a batch by size at the device's usual pace, never falling. Pure.

Measurements are kept at a few sizes (knots), linear between them; beyond them the prior's shape continues. Measurements
that would make the curve fall are pooled (pool adjacent violators: the nearest curve that never falls).
"""

from bisect import bisect_left

from penstock.worker.batching.settings import Prior

KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_FOLLOWS = 0.05
_MOST_CHANGE = 1.0
_MOST_WEIGHT = 20.0
LEAST_S = 1e-6
"""The least time of a batch: a clock that did not move measures nothing."""


class BatchTimes:
    __slots__ = ("_at", "_count", "_knots", "_prior", "_read", "_sizes")

    def __init__(self, prior: Prior, most_items: int) -> None:
        self._prior = prior
        self._knots = [one for one in KNOTS if one < most_items] + [most_items]
        self._at: dict[int, float] = {}
        self._count: dict[int, int] = {}
        self._sizes: list[int] = []
        self._read: list[float] = []

    def seconds(self, size: int) -> float:
        sizes, read = self._sizes, self._read
        if not sizes:
            return self._prior.seconds(size)
        i = bisect_left(sizes, size)
        if i == len(sizes) or (i == 0 and sizes[0] != size):
            near = sizes[max(0, i - 1)]
            return read[max(0, i - 1)] * self._prior.seconds(size) / self._prior.seconds(near)
        if sizes[i] == size:
            return read[i]
        left, right = sizes[i - 1], sizes[i]
        return read[i - 1] + (read[i] - read[i - 1]) * (size - left) / (right - left)

    def learn(self, size: int, seconds: float) -> None:
        knot = self._nearest(size)
        found = max(LEAST_S, seconds)
        if knot != size:
            found *= self.seconds(knot) / self.seconds(size)
        self._count[knot] = count = self._count.get(knot, 0) + 1
        at = self._at.get(knot)
        if at is None:
            self._at[knot] = found
            self._sizes = sorted(self._at)
        else:
            change = min(_MOST_CHANGE, found / at - 1.0)
            self._at[knot] = at * (1.0 + max(_FOLLOWS, 1.0 / count) * change)
        self._read = self._pooled()

    def _nearest(self, size: int) -> int:
        knots = self._knots
        i = min(bisect_left(knots, size), len(knots) - 1)
        return knots[i - 1] if i and size - knots[i - 1] < knots[i] - size else knots[i]

    def _pooled(self) -> list[float]:
        pools: list[tuple[float, float, int]] = []
        for size in self._sizes:
            value, weight, many = self._at[size], min(_MOST_WEIGHT, self._count[size]), 1
            while pools and pools[-1][0] > value:
                other, heavy, more = pools.pop()
                value = (value * weight + other * heavy) / (weight + heavy)
                weight, many = weight + heavy, many + more
            pools.append((value, weight, many))
        return [value for value, _, many in pools for _ in range(many)]
