"""An error budget's remaining share, burn rate and forecast. Unknown is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.slo.windows import DAY_S

SHOWN = ("1h", "6h", "3d")
"""The windows of shown burn rates: now, this shift, these days."""
FORECAST = "6h"
"""The window of the burn rate that a forecast extrapolates: long enough to be stable, short enough to be current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCounts:
    bad: float
    events: float

    def is_few(self, good_ratio: float, least_bad: int) -> bool:
        return self.events > 0 and max(self.bad, self.events * (1 - good_ratio)) < least_bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One objective's share left (below 0: overspent), and burn by window (1: just in time).

    With too few events to judge, it ``is_few`` and states no share left.
    """

    tier: str
    objective: str
    good_ratio: float
    period_days: int
    left_ratio: float | None
    burns: Mapping[str, float | None]
    seen: EventCounts | None = None
    is_few: bool = False

    @property
    def spent_in_s(self) -> float | None:
        """Seconds at this rate until the budget is spent; 0 if it is, None if never or unknown."""
        if self.left_ratio is None:
            return None
        if self.left_ratio <= 0:
            return 0.0
        pace = self.burns.get(FORECAST)
        return self.left_ratio * self.period_days * DAY_S / pace if pace else None


def burn(bad_ratio: float | None, good_ratio: float) -> float | None:
    """Return the burn rate: 1 spends the budget exactly within its period."""
    return None if bad_ratio is None else bad_ratio / (1 - good_ratio)


def left(bad_ratio: float | None, good_ratio: float, *, is_counted: bool) -> float | None:
    """Return the part left after a period; unknown if events were not counted. Without events nothing was spent."""
    spent = burn(bad_ratio, good_ratio)
    if spent is None:
        return 1.0 if is_counted else None
    return 1 - spent
