"""When requests come: decided before the run, from a seed, whatever the target does meanwhile (ADR 0067).

Gaps are Gamma distributed with a coefficient of variation: 1 is a Poisson process, more comes in bursts, less is more
regular than chance. A rate that changes over the run stretches and presses that process along the curve's area, so
that bursts stay bursts at every hour.
"""

import itertools
import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence

FLAT = (1.0,)


def arrivals(
    *, per_s: float, duration_s: float, cv: float, curve: Sequence[float], chance: random.Random
) -> Iterator[float]:
    """Yield rising seconds below ``duration_s``; ``curve`` holds the rates of equal parts of it, in any unit."""
    expected, shape, done = per_s * duration_s, cv**-2, 0.0
    areas = [0.0, *itertools.accumulate(curve)]
    while (done := done + chance.gammavariate(shape, 1 / shape)) < expected:
        yield duration_s * _part_of_time(areas, done / expected)


def _part_of_time(areas: list[float], part: float) -> float:
    """Return when this part of all arrivals has come, as a part of the time."""
    wanted = part * areas[-1]
    after = max(1, bisect_left(areas, wanted))
    before = areas[after - 1]
    return (after - 1 + (wanted - before) / (areas[after] - before)) / (len(areas) - 1)
