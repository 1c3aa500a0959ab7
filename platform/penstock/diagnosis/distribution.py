"""A histogram's growth over a window: count, sum, and the share within a bound."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.diagnosis.recording import Recording
from penstock.telemetry.definitions import Metric
from penstock.telemetry.series import Sample

Where = Callable[[Sample], bool]


def anywhere(_: Sample) -> bool:
    return True


def total(samples: Iterable[Sample]) -> float | None:
    values = [sample.value for sample in samples]
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Pairs of an upper bound and a cumulative count, the last bound infinite."""

    count: float
    sum: float
    buckets: tuple[tuple[float, float], ...]

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count > 0 else None

    def within(self, bound: float) -> float | None:
        """Return the interpolated share up to a bound; None without observations."""
        if self.count <= 0 or not self.buckets:
            return None
        low, below = 0.0, 0.0
        for upper, count in self.buckets:
            if bound <= upper:
                part = 1.0 if math.isinf(upper) or upper == low else (bound - low) / (upper - low)
                return (below + (count - below) * (0.0 if math.isinf(upper) else part)) / self.count
            low, below = upper, count
        return 1.0

    def quantile(self, q: float) -> float | None:
        if self.count <= 0 or not self.buckets:
            return None
        low, below, rank = 0.0, 0.0, q * self.count
        for upper, count in self.buckets:
            if count >= rank and count > below:
                return low if math.isinf(upper) else low + (upper - low) * (rank - below) / (count - below)
            low, below = upper, count
        return low


def of(recording: Recording, metric: Metric, where: Where = anywhere) -> Distribution | None:
    count = total(filter(where, recording.of(metric, "_count")))
    amount = total(filter(where, recording.of(metric, "_sum")))
    if count is None or amount is None:
        return None
    bounds: dict[float, float] = {}
    for sample in filter(where, recording.of(metric, "_bucket")):
        bound = float(sample.labels["le"])
        bounds[bound] = bounds.get(bound, 0.0) + (sample.value or 0.0)
    return Distribution(count=count, sum=amount, buckets=tuple(sorted(bounds.items())))
