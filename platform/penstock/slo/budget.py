"""What is left of each error budget, how fast it goes, and when it is spent at that pace. Unknown is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.slo.windows import DAY_S

SHOWN = ("1h", "6h", "3d")
"""The windows over which a burn is told: now, this shift, these days."""
FORECAST = "6h"
"""The window whose pace a forecast goes on with: long enough to be more than a moment, short enough to be now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Events that were counted, and how many of them were bad."""

    bad: float
    events: float

    def is_few(self, good_ratio: float, least_bad: int) -> bool:
        """Tell whether they are too few to judge: neither were so many bad, nor might so many have been."""
        return self.events > 0 and max(self.bad, self.events * (1 - good_ratio)) < least_bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One objective's budget: the share that is left (below 0: overspent), and its burn by window (1: just in time).

    Where too few events were seen to judge, it ``is_few`` and nothing is said to be left.
    """

    tier: str
    objective: str
    good_ratio: float
    period_days: int
    left_ratio: float | None
    burns: Mapping[str, float | None]
    seen: Seen | None = None
    is_few: bool = False

    @property
    def spent_in_s(self) -> float | None:
        """Return when it is spent at the present pace, in seconds; 0 where it is, None where never or unknown."""
        if self.left_ratio is None:
            return None
        if self.left_ratio <= 0:
            return 0.0
        pace = self.burns.get(FORECAST)
        return self.left_ratio * self.period_days * DAY_S / pace if pace else None


def burn(bad_ratio: float | None, good_ratio: float) -> float | None:
    """Return how many times faster than allowed this share of bad events spends a budget."""
    return None if bad_ratio is None else bad_ratio / (1 - good_ratio)


def left(bad_ratio: float | None, good_ratio: float, *, is_counted: bool) -> float | None:
    """Return the share of a budget that is left after a period with this share of bad events.

    Where there were none to share, because nobody asked, nothing was spent; where nobody counted, that is unknown.
    """
    spent = burn(bad_ratio, good_ratio)
    if spent is None:
        return 1.0 if is_counted else None
    return 1 - spent
