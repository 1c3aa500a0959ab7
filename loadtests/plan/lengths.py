"""A distribution as its quantiles: what a fit keeps of a trace, and how a value is drawn from it again.

Between two quantiles a value lies on a line in its logarithm. No family of curves is assumed: real prompts come in
lumps (templates, system prompts) that none of them shows.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence

Quantiles = dict[float, float]
"""Values by the share of all that lies below them, both rising, from 0 to 1."""
STEPS = 40
TAILS = (0.001, 0.005, 0.01, 0.99, 0.995, 0.999)


def fitted(values: Sequence[float]) -> Quantiles:
    """Return a sample's quantiles, closer together at its tails."""
    ordered = sorted(values)
    probabilities = sorted({*(step / STEPS for step in range(STEPS + 1)), *TAILS})
    return {p: round(ordered[min(len(ordered) - 1, int(p * len(ordered)))], 4) for p in probabilities}


def value_at(quantiles: Quantiles, probability: float) -> float:
    """Return the value below which this share of all values lies."""
    points = tuple(quantiles.items())
    after = bisect_right(points, probability, key=lambda point: point[0])
    if after >= len(points):
        return points[-1][1]
    (p0, low), (p1, high) = points[after - 1], points[after]
    part = (probability - p0) / (p1 - p0)
    if low <= 0:
        return low + part * (high - low)
    return math.exp(math.log(low) + part * (math.log(high) - math.log(low)))


def drawn(quantiles: Quantiles, chance: random.Random) -> float:
    return value_at(quantiles, chance.random())


def distance(quantiles: Quantiles, values: Sequence[float], chance: random.Random) -> float:
    """Return the largest gap between the cumulative shares of a drawn and a real sample (Kolmogorov-Smirnov)."""
    ours, real = sorted(drawn(quantiles, chance) for _ in values), sorted(values)
    return max(abs(bisect_right(ours, x) - bisect_right(real, x)) for x in {*ours, *real}) / len(real)
