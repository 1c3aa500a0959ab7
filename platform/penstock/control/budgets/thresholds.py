"""Alarm thresholds that a budget has reached. Pure.

Trade-off: an alarm is raised once per scope, window, cap and threshold. Changing a cap within a window makes a new
budget, whose alarms are raised again: once too often rather than once too seldom.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.domain.tenancy.budget import BudgetLine

PERCENTS = (50, 80, 95, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    line: BudgetLine
    percent: int

    @property
    def name(self) -> str:
        """The alarm's identity, by which repeated notes of it are one."""
        return f"{self.line.budget.meter}/{self.line.budget.cap}@{self.percent}"


def crossed(lines: Iterable[BudgetLine]) -> Iterator[Crossing]:
    for line in lines:
        for percent in PERCENTS:
            if line.spent * 100 >= line.budget.cap * percent:
                yield Crossing(line=line, percent=percent)
