"""A decaying count of uses: between recency and frequency (LRFU, Lee et al., IEEE TC 50(12), 2001).

Trade-off: an entry used much in the past is evicted a little later than by recency alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fading:
    """An amount as of second ``at``, which halves after each half-life."""

    amount: float = 0.0
    at: float = 0.0

    def now(self, now: float, half_life_s: float) -> float:
        return self.amount * float(2.0 ** (-max(0.0, now - self.at) / half_life_s))

    def plus(self, amount: float, now: float, half_life_s: float) -> "Fading":
        return Fading(self.now(now, half_life_s) + amount, now)
