"""Drills judge the platform's own rules, at most with shorter times."""

from tests.support.monitoring.alarms import hurried
from tests.support.monitoring.alert_rules import RULES


def test_a_hurried_rule_is_the_same_rule() -> None:
    """Only ``for``, windows and thresholds in seconds change, all of them alike."""
    rule = RULES["LedgerBehind"]
    assert hurried(rule, 1.0)["expr"] == rule["expr"]
    assert hurried(rule, 10, (120,)) == {**rule, "expr": rule["expr"].replace("> 120", "> 12"), "for": "6000ms"}
    assert hurried(RULES["BillsCapped"], 60)["expr"] == "increase(penstock_capped_bills_total[5000ms]) > 0"
