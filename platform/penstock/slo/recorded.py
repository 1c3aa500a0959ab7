"""The names of recorded series: level:metric:operation, at the level of one tier's objective.

Rules, alerts, boards and ``penstock slo status`` take the names from here.
"""

from dataclasses import dataclass
from typing import Protocol

from penstock.slo.windows import WindowPair

BASE_WINDOW = "5m"
"""The only window over which the platform's own counters are read; longer ones sum the recorded rates."""
INTERVAL_S = 30
"""Recording interval: a sample of a rate stands for the events of this many seconds."""
EVENTS = f"tier_objective:slo_events:rate{BASE_WINDOW}"
BAD_EVENTS = f"tier_objective:slo_bad_events:rate{BASE_WINDOW}"
BUDGET = "tier_objective:slo_error_budget:ratio"
BUDGET_LEFT = "tier_objective:slo_budget_left:ratio"
TIER, OBJECTIVE = "tier", "objective"


def error_ratio(window: str) -> str:
    return f"tier_objective:slo_errors:ratio_rate{window}"


def count(rate: str, window: str, interval_s: int = INTERVAL_S) -> str:
    """Events in a window, by a recorded rate. Missing samples add nothing: a mean would extend a young Prometheus's
    first minute to the whole window.
    """
    return f"sum_over_time({rate}[{window}]) * {interval_s}"


def select(series: str, tier: str, objective: str) -> str:
    return f'{series}{{{OBJECTIVE}="{objective}",{TIER}="{tier}"}}'


class Measured(Protocol):
    def events_rate(self, window: str) -> str: ...

    def bad_rate(self, window: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """At most ``budget_ratio`` of the events are bad over ``period_days``."""

    tier: str
    objective: str
    says: str
    budget_ratio: float
    period_days: int
    measure: Measured

    @property
    def labels(self) -> dict[str, str]:
        return {TIER: self.tier, OBJECTIVE: self.objective}

    def threshold(self, pair: WindowPair) -> float:
        return pair.factor(self.period_days) * self.budget_ratio

    def series(self, recorded: str) -> str:
        return select(recorded, self.tier, self.objective)
