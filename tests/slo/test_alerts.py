"""Alerts read metrics that exist, with labels that they have, and say what it means."""

import re

import pytest

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
