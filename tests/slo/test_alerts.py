"""Alerts read metrics that exist, with labels that they have, and say what it means."""

import re

import pytest

from penstock.slo.windows import seconds
from tests.support.monitoring.alert_rules import RULES, SAMPLES, Rule


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_alert_reads_what_there_is(rule: Rule) -> None:
    """A renamed metric or label breaks this test and not the alarm."""
    read = re.findall(r"(penstock_\w+)(?:\{(\w+)=)?", rule["expr"])
    assert read
    for name, label in read:
        assert name in SAMPLES
        assert not label or label in SAMPLES[name].labels
    assert rule["annotations"]


LONGEST_S = 300
"""A page that outlives its fault by more than that wakes a person for what is over; burn alerts have the same."""
WINDOW = re.compile(r"\[(\w+)\]")


def outlives_s(expr: str) -> int:
    """Return the seconds for which an expression may stay true once its fault is over: of each arm the least window."""
    arms = re.split(r"\bor\b", expr)
    return max(min((seconds(window) for window in WINDOW.findall(arm)), default=0) for arm in arms)


@pytest.mark.parametrize("rule", [one for one in RULES.values() if one["labels"]["severity"] == "page"], ids=str)
def test_a_page_ends_within_minutes_of_its_fault(rule: Rule) -> None:
    """Its expression asks about now, whatever it counts in a longer window."""
    assert outlives_s(rule["expr"]) <= LONGEST_S


def test_a_long_window_alone_is_found() -> None:
    """A window of now in the same arm is the one that counts."""
    assert outlives_s("a == 0 or increase(b[10m]) > 2") == 600
    assert outlives_s("a == 0 or (increase(b[10m]) > 2 and increase(b[5m]) > 0)") == 300
