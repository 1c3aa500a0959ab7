"""Whether a worker fails more than its peers do: gray failure, which failures in a row don't show. Pure.

Trade-off: a ratio needs evidence, so a worker that fails three requests in ten is found after some ten requests.
It is compared with its peers, because where all fail alike it is the requests or the model, and ejecting helps nobody.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierSettings:
    """When a worker counts as an outlier, and how many may be left alone for it."""

    least_ratio: float = 0.2
    """Failures to requests, lately."""
    least_requests: float = 8.0
    times_worse: float = 2.0
    """Than the mean of its peers."""
    most_ejected_ratio: float = 0.5
    """At most this share of the workers asked about is left alone for errors."""
    half_life_s: float = 20.0


class Tally:
    """Good and bad answers lately; old ones fade."""

    __slots__ = ("_at", "_half_life_s", "bad", "good")

    def __init__(self, half_life_s: float, now: float) -> None:
        """Begin empty."""
        self._half_life_s = half_life_s
        self._at = now
        self.good = self.bad = 0.0

    def count(self, now: float, *, bad: bool) -> None:
        """Take in one answer."""
        self._fade(now)
        if bad:
            self.bad += 1.0
        else:
            self.good += 1.0

    @property
    def requests(self) -> float:
        """How many there were, with what has faded taken off."""
        return self.good + self.bad

    @property
    def ratio(self) -> float:
        """Bad ones to all; 0 where there were none."""
        return self.bad / self.requests if self.requests else 0.0

    def _fade(self, now: float) -> None:
        keep = math.exp2(-max(0.0, now - self._at) / self._half_life_s)
        self.good, self.bad, self._at = self.good * keep, self.bad * keep, now


def is_outlier(own: Tally, peers: Sequence[float], settings: OutlierSettings) -> bool:
    """Tell whether one fails clearly more than its peers, whose ratios these are; nobody is an outlier alone."""
    if not peers or own.requests < settings.least_requests:
        return False
    usual = sum(peers) / len(peers)
    return own.ratio >= settings.least_ratio and own.ratio >= settings.times_worse * usual


def most_ejected(workers: int, settings: OutlierSettings) -> int:
    """Return how many of so many workers (or zones) may be left alone."""
    return math.floor(workers * settings.most_ejected_ratio)
