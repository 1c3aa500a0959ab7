"""Windows: their data is judged in words, and their factors follow from the share of a budget that they may spend."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from penstock.apps import slos
from penstock.domain.serving.spec import SpecRefused
from penstock.slo.windows import parse, seconds

GOOD: dict[str, Any] = {
    "periods_days": [28, 30],
    "least_bad_events": 5,
    "now_ratio": 0.5,
    "pairs": [{"severity": "page", "long": "1h", "short": "5m", "budget_ratio": 0.02}],
}


@pytest.mark.parametrize(("period_days", "factors"), [(30, [14.4, 6.0, 3.0, 1.0]), (28, [13.44, 5.6, 2.8, 0.9333333])])
def test_factors_follow_from_the_period(period_days: int, factors: list[float]) -> None:
    """Thirty days have the workbook's own factors; over 28 the same shares of a budget burn a little slower."""
    pairs = slos.windows().pairs
    assert [pair.factor(period_days) for pair in pairs] == pytest.approx(factors)


def test_every_window_is_there_once_and_in_order() -> None:
    """Recording rules need each window of the pairs, however many pairs share it."""
    assert slos.windows().lengths == ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
    assert seconds("3d") == 259_200


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "unknown key": (lambda w: w.update(days=1), "w.yaml: days: no such key here"),
    "no periods": (lambda w: w.update(periods_days=[]), "w.yaml: periods_days: must be a list of at least one"),
    "half a period": (lambda w: w.update(periods_days=[1.5]), "w.yaml: periods_days: [1.5] must be whole numbers"),
    "no guard": (lambda w: w.update(least_bad_events=0), "w.yaml: least_bad_events: 0 must be a count above 0"),
    "unknown severity": (lambda w: w["pairs"][0].update(severity="red"), "w.yaml: pairs[0].severity: 'red' is none of"),
    "no unit": (lambda w: w["pairs"][0].update(long=60), "w.yaml: pairs[0].long: 60 must be a number of m, h or d"),
    "swapped": (lambda w: w["pairs"][0].update(long="5m", short="1h"), "pairs[0].short: 1h must be shorter than 5m"),
    "now above short": (lambda w: w["pairs"][0].update(now="6m"), "pairs[0].now: 6m must be at most 5m"),
    "twice the pace": (lambda w: w.update(now_ratio=2), "w.yaml: now_ratio: 2 must be a part of a burn rate"),
    "whole budget": (lambda w: w["pairs"][0].update(budget_ratio=1), "pairs[0].budget_ratio: 1 must be a share"),
}


@pytest.mark.parametrize(("change", "says"), WRONG.values(), ids=WRONG.keys())
def test_wrong_windows_name_place_and_remedy(change: Change, says: str) -> None:
    """Each mistake is answered with file, key and what to do."""
    raw = copy.deepcopy(GOOD)
    change(raw)
    with pytest.raises(SpecRefused) as refused:
        parse(raw, "w.yaml")
    assert says in str(refused.value)
