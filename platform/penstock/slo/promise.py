"""One objective in the form that its rules need: a budget over a period, and the measure of its events."""

from dataclasses import dataclass
from typing import Protocol

from penstock.slo.recorded import OBJECTIVE, TIER, select
from penstock.slo.windows import WindowPair


class Measured(Protocol):
    def events_rate(self, window: str) -> str: ...

    def bad_rate(self, window: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Over ``period_days``, at most ``budget_ratio`` of the events are bad."""

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
