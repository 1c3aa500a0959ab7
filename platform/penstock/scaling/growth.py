"""The quantile of demand's growth over a start, learned from the last hour. Pure.

There is no other forecast: the last value times that quantile covers 93 % of ten-minute windows of ServeGen's
fortnight, and no predictor of the mean did better (ADR 0110).
"""

import math
from dataclasses import dataclass

from penstock.scaling.constants import (
    GROWTH_LEAST_SAMPLES,
    GROWTH_MOST,
    GROWTH_QUANTILE,
    SAMPLE_S,
    SAMPLES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Samples of asked work, one each ``SAMPLE_S``; a late tick leaves samples out."""

    samples: tuple[float, ...] = ()
    sampled_at: float = -math.inf
    lead_s: float = 0.0
    growth: float = 1.0
    """The learned quantile over ``lead_s``, as of the last sample."""

    def after(self, work: float, now: float, lead_s: float) -> "History":
        if now - self.sampled_at < SAMPLE_S:
            return self
        samples = (*self.samples, work)[-SAMPLES:]
        return History(samples=samples, sampled_at=now, lead_s=lead_s, growth=quantile(samples, lead_s))


def quantile(samples: tuple[float, ...], lead_s: float) -> float:
    """Return the ratio within which 95 % of the samples grew over ``lead_s``, from 1 to ``GROWTH_MOST``."""
    ahead = max(1, round(lead_s / SAMPLE_S))
    grown = sorted(after / before for before, after in zip(samples, samples[ahead:], strict=False) if before > 0.0)
    if len(grown) < GROWTH_LEAST_SAMPLES:
        return 1.0
    return min(GROWTH_MOST, max(1.0, grown[math.ceil(GROWTH_QUANTILE * len(grown)) - 1]))
