"""Which alarms a budget has earned."""

import pytest

from penstock.control.budgets.watch import crossed
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.budget import Budget, BudgetLine, day


def line(spent: int, cap: int = 1000) -> BudgetLine:
    budget = Budget(scope="tenant:t", window=day(0.0), cap=MicroUsd(cap))
    return BudgetLine(budget=budget, spent=MicroUsd(spent))


@pytest.mark.parametrize(
    ("spent", "percents"),
    [
        (0, []),
        (499, []),
        (500, [50]),
        (799, [50]),
        (800, [50, 80]),
        (950, [50, 80, 95]),
        (999, [50, 80, 95]),
        (1000, [50, 80, 95, 100]),
        (5000, [50, 80, 95, 100]),
    ],
)
def test_each_threshold_is_crossed_exactly_at_its_share(spent: int, percents: list[int]) -> None:
    """To the micro-dollar, and all lower ones with it."""
    assert [crossing.percent for crossing in crossed([line(spent)])] == percents


def test_an_alarm_has_one_name_per_budget_and_threshold() -> None:
    """Scope, window, cap and percent make it; what was spent since does not."""
    names = {crossing.name for crossing in crossed([line(1000), line(1001), line(1000, cap=900)])}
    assert names == {f"tenant:t:spend:1970-01-01/{cap}@{p}" for cap in (1000, 900) for p in (50, 80, 95, 100)}
