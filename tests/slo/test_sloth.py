"""What sloth, the field's tool, makes of its own published examples: our rules mean the same.

The figures below are facts read from https://github.com/slok/sloth (Apache-2.0): objectives from ``examples/*.yml``,
thresholds from the generated rules in ``examples/_gen/*.yml``, periods and shares of budgets from ``examples/windows``
and ``internal/alert/windows``. Nothing else is taken. Its raw queries (``raw-home-wifi``) have no counterpart here.
"""

import re
from dataclasses import dataclass

import pytest

from penstock.apps import slos
from penstock.slo import recorded, rules
from penstock.slo.recorded import Promise
from penstock.slo.rule import Alert, RecordingRule
from penstock.slo.windows import Severity, WindowPair, Windows

Meaning = set[tuple[str, str, str, float]]
WORKBOOK = {("page", "1h", "5m"): 14.4, ("page", "6h", "30m"): 6, ("ticket", "1d", "2h"): 3, ("ticket", "3d", "6h"): 1}
"""The factors in every file of ``examples/_gen``, by severity, long and short window."""
RECORDED = {"5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"}
"""The windows of ``slo:sli_error:ratio_rate…`` in the same files."""
EXAMPLES = {
    "getting-started: requests-availability": 99.9,
    "home-wifi: good-wifi-client-satisfaction": 95.0,
    "home-wifi: risk-wifi-client-satisfaction": 99.9,
    "kubernetes-apiserver: requests-availability": 99.9,
    "kubernetes-apiserver: requests-latency": 99.0,
}
"""Objectives in per cent, by file and name."""
CATALOGUES: dict[str, tuple[int, list[tuple[str, str, str, float]]]] = {
    "google-28d": (
        28,
        [("page", "1h", "5m", 2), ("page", "6h", "30m", 5), ("ticket", "1d", "2h", 10), ("ticket", "3d", "6h", 10)],
    ),
    "7d": (
        7,
        [("page", "1h", "5m", 8), ("page", "6h", "30m", 12.5), ("ticket", "1d", "2h", 20), ("ticket", "3d", "6h", 42)],
    ),
    "custom-30d": (
        30,
        [("page", "30m", "2m", 1), ("page", "3h", "15m", 2), ("ticket", "12h", "1h", 5), ("ticket", "36h", "3h", 5)],
    ),
}
"""Period in days, and severity, long and short window and per cent of the budget."""


@dataclass(frozen=True)
class Queries:
    """An example's own two queries; which, does not matter to windows and thresholds."""

    def events_rate(self, window: str) -> str:
        return f"sum(rate(http_requests_total[{window}]))"

    def bad_rate(self, window: str) -> str:
        return f'sum(rate(http_requests_total{{code=~"5.."}}[{window}]))'


def promise(percent: float, period_days: int) -> Promise:
    return Promise(
        tier="example",
        objective="availability",
        says="",
        budget_ratio=1 - percent / 100,
        period_days=period_days,
        measure=Queries(),
    )


def meaning(made: Promise, windows: Windows) -> Meaning:
    """Return what the alerts of a promise mean, read from their PromQL: severity, windows, threshold."""
    (group,) = rules.groups([made], windows)
    found: Meaning = set()
    for rule in group.rules:
        if isinstance(rule, Alert) and "ratio_rate" in rule.expr:
            (long, *first), (short, *second) = re.findall(r"ratio_rate(\w+)\{.*?\} > \((\S+) \* (\S+)\)", rule.expr)
            assert first == second
            found.add((rule.severity.value, long, short, round(float(first[0]) * float(first[1]), 6)))
    return found


@pytest.mark.parametrize("percent", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_rules_mean_what_sloth_means(percent: float) -> None:
    """For each example: the same windows are recorded, and the same alerts fire above the same thresholds."""
    made, windows = promise(percent, 30), slos.windows()
    budget = 1 - percent / 100
    assert meaning(made, windows) == {(*pair, round(factor * budget, 6)) for pair, factor in WORKBOOK.items()}
    (group,) = rules.groups([made], windows)
    told = {rule.record for rule in group.rules if isinstance(rule, RecordingRule)}
    assert {recorded.error_ratio(window) for window in RECORDED} <= told


@pytest.mark.parametrize("name", CATALOGUES)
def test_windows_of_other_periods_mean_the_same(name: str) -> None:
    """Sloth's factor is the share of the budget, times the period, divided by the long window; so is ours."""
    days, shares = CATALOGUES[name]
    pairs = tuple(
        WindowPair(severity=Severity(severity), long=long, short=short, now=short, budget_ratio=percent / 100)
        for severity, long, short, percent in shares
    )
    windows = Windows(periods_days=(days,), least_bad_events=5, now_ratio=0.5, pairs=pairs)
    hours = {"m": 1 / 60, "h": 1.0, "d": 24.0}
    expected = {
        (severity, long, short, round(percent / 100 * days * 24 / (int(long[:-1]) * hours[long[-1]]) * 0.001, 6))
        for severity, long, short, percent in shares
    }
    assert meaning(promise(99.9, days), windows) == expected
