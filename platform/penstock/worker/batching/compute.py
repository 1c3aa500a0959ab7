"""Predicts a batch's compute time, in quantiles by bucket and size, from measurements. Pure.

A prediction is the product of a curve per bucket, which changes slowly and never falls with size, and the device's
present pace, shared by all buckets.

Trade-off: jitter is assumed proportional for all sizes; quantiles per size would need more measurements than a few
seconds give.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from functools import partial
from math import ceil

from penstock.worker.batching.curve import BatchTimes
from penstock.worker.batching.items import Key
from penstock.worker.batching.settings import Prior

REMEMBERED_S = 2.0
MOST_RATIOS, LEAST_RATIOS = 128, 8
"""Seconds of recent batches that determine the device's pace: at most and, if available, at least."""
MOST_KEYS = 256
UNMEASURED_TAIL = 2.0
"""The factor by which an unmeasured batch may exceed its predicted time."""
_FOLLOWS = 0.3
_TAIL = 0.99


class Computes:
    def __init__(self, prior: Prior, most_items: int) -> None:
        self._prior, self._most = prior, most_items
        self._curves: OrderedDict[Key, BatchTimes] = OrderedDict()
        self._unmeasured = BatchTimes(prior, most_items)
        self._recent: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []
        self._pace = 1.0
        self._half, self._tail = 1.0, UNMEASURED_TAIL

    def is_measured(self, key: Key) -> bool:
        return key in self._curves

    def p50(self, key: Key, size: int) -> float:
        return self._curves.get(key, self._unmeasured).seconds(size) * self._half

    def p99(self, key: Key, size: int) -> float:
        return self._curves.get(key, self._unmeasured).seconds(size) * self._tail

    def most_within(self, key: Key, seconds: float, most: int) -> int:
        """Return the items, from one to ``most``, that probably take at most ``seconds``."""
        if self.p50(key, most) <= seconds:
            return most
        return max(1, bisect_right(range(1, most), seconds, key=partial(self.p50, key)))

    def learn(self, key: Key, size: int, seconds: float, now: float) -> None:
        curve = self._curves.get(key)
        if curve is None:
            curve = self._curves[key] = BatchTimes(self._prior, self._most)
            curve.learn(size, seconds / self._pace)
            if len(self._curves) > MOST_KEYS:
                self._curves.popitem(last=False)
        self._curves.move_to_end(key)
        ratio = seconds / curve.seconds(size)
        self._pace *= (ratio / self._pace) ** _FOLLOWS
        curve.learn(size, seconds / self._pace)
        self._remember(ratio, now)

    def _remember(self, ratio: float, now: float) -> None:
        recent, ordered = self._recent, self._sorted
        recent.append((now, ratio))
        insort(ordered, ratio)
        while len(recent) > MOST_RATIOS or (len(recent) > LEAST_RATIOS and recent[0][0] < now - REMEMBERED_S):
            _, old = recent.popleft()
            del ordered[bisect_left(ordered, old)]
        many = len(ordered)
        self._half = ordered[many // 2]
        self._tail = ordered[ceil(_TAIL * many) - 1] * (1.0 + 1.0 / many)  # few measurements say little of the tail
