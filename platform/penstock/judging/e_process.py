"""E-processes: evidence that is valid at any time, by bets that scores in [0, 1] have a mean above a tolerated one.

If the mean is not above it, each bet's wealth is a supermartingale, and wealth 1/a is ever reached with probability at
most a (Ville's inequality; Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2021). A
test for harm forgets losses (e-CUSUM; Shin, Ramdas and Rinaldo, "E-detectors", 2022).

Requests close in time are correlated, so the weight of a slot is capped; a weight below 1 is only more conservative.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import add as plus

FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.65, 0.9)
RARE = (0.005, *FRACTIONS)
"""Bets for scores that are nearly always 0, errors for example."""
_NEAR = 0.001


class EProcess:
    __slots__ = ("_evidence", "_forgets", "_fractions", "_logs")

    def __init__(self, fractions: tuple[float, ...] = FRACTIONS, *, forgets: bool) -> None:
        self._fractions, self._forgets = fractions, forgets
        self._logs = [0.0] * len(fractions)
        self._evidence: float | None = None

    def observe(self, counts: Mapping[float, int], mean: float, cap: float = math.inf) -> None:
        """Counts by score, of weight ``cap`` at most; ``mean`` is the tolerated score, in (0, 1)."""
        many = sum(counts.values())
        if many:
            fractions = self._fractions
            self.add(total_gains(counts, lambda score: _gains(score, mean, fractions)), min(1.0, cap / many))

    def add(self, gains: Sequence[float], weight: float) -> None:
        if self._forgets:
            self._logs = [
                log + weight * gain if log > 0.0 else weight * gain for log, gain in zip(self._logs, gains, strict=True)
            ]
        else:
            self._logs = [log + weight * gain for log, gain in zip(self._logs, gains, strict=True)]
        self._evidence = None

    def copy(self) -> "EProcess":
        found = EProcess(self._fractions, forgets=self._forgets)
        found._logs = list(self._logs)
        return found

    @property
    def has_gained(self) -> bool:
        return max(self._logs) > 0.0

    def reaches(self, log_odds: float) -> bool:
        """Compare the mean wealth; the best bet, an upper bound, is checked first."""
        return max(self._logs) >= log_odds and self.log_wealth >= log_odds

    @property
    def log_wealth(self) -> float:
        if self._evidence is None:
            top = max(self._logs)
            self._evidence = top + math.log(sum([math.exp(one - top) for one in self._logs]) / len(self._logs))
        return self._evidence


class GainTable:
    __slots__ = ("_means", "_rows")

    def __init__(self, means: Sequence[tuple[float, bool]]) -> None:
        self._means = tuple(means)
        self._rows: dict[float, Sequence[float]] = {}

    def gains(self, counts: Mapping[float, int]) -> list[Sequence[float]]:
        row, width = total_gains(counts, self._row), len(FRACTIONS)
        return [row[at : at + width] for at in range(0, len(row), width)]

    def _row(self, score: float) -> Sequence[float]:
        row = self._rows.get(score)
        if row is None:
            gains = [
                _gains(1.0 - score if is_mirrored else score, mean, FRACTIONS) for mean, is_mirrored in self._means
            ]
            row = self._rows[score] = tuple(chain.from_iterable(gains))
        return row


def total_gains(counts: Mapping[float, int], gains_of: Callable[[float], Sequence[float]]) -> Sequence[float]:
    found: Sequence[float] = ()
    for score, count in counts.items():
        if count:
            gains = gains_of(score) if count == 1 else [count * gain for gain in gains_of(score)]
            found = list(map(plus, found, gains)) if found else gains
    return found


@lru_cache(maxsize=1 << 14)
def _gains(score: float, mean: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    return tuple([math.log1p(fraction / mean * (score - mean)) for fraction in fractions])


def mirrored(counts: Mapping[float, int]) -> dict[float, int]:
    return {1.0 - score: count for score, count in counts.items()}


def expected_s(
    per_s: Mapping[float, float], mean: float, cap: float, odds: float, fractions: tuple[float, ...] = FRACTIONS
) -> float:
    """Seconds to a proof, infinite if never; single runs may take half or twice that.

    ``per_s`` are requests per second by score.
    """
    many = sum(per_s.values())
    if many <= 0.0:
        return math.inf
    weight = min(1.0, cap / many)
    gains = [0.0] * len(fractions)
    for score, count in per_s.items():
        for i, gain in enumerate(_gains(score, mean, fractions)):
            gains[i] += weight * count * gain
    if max(gains) <= 0.0:
        return math.inf

    def is_reached(seconds: float) -> bool:
        logs = [gain * seconds for gain in gains]
        top = max(logs)
        return top + math.log(sum([math.exp(one - top) for one in logs]) / len(logs)) >= math.log(odds)

    low, high = 0.0, 1.0
    while not is_reached(high):
        low, high = high, 2.0 * high
    while high - low > _NEAR * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_reached(middle) else (middle, high)
    return high
