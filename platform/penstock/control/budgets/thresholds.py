"""Which alarms a budget has earned: a pure question about what was spent and what may be.

Trade-off: an alarm is raised once per scope, window, cap and threshold. A cap that is changed inside a window is a
new budget, and its thresholds are raised again: once too often rather than once too seldom.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.domain.tenancy.budget import BudgetLine

PERCENTS = (50, 80, 95, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A threshold that a budget has reached."""

    line: BudgetLine
    percent: int

    @property
    def name(self) -> str:
        """Return what makes it one alarm, whoever notices it and however often."""
        return f"{self.line.budget.meter}/{self.line.budget.cap}@{self.percent}"


def crossed(lines: Iterable[BudgetLine]) -> Iterator[Crossing]:
    """Yield every threshold that has been reached, the lower ones first."""
    for line in lines:
        for percent in PERCENTS:
            if line.spent * 100 >= line.budget.cap * percent:
                yield Crossing(line=line, percent=percent)
