"""Every alert that wakes somebody is drilled, and a drill judges the platform's own rule, at most hurried."""

from tests.integration.drills.test_drills import DRILLS, OF_GATEWAYS, OF_ROLLOUTS
from tests.support.monitoring.alarms import hurried
from tests.support.monitoring.alert_rules import RULES


def test_every_page_has_a_drill() -> None:
    """Nobody is woken by what was never seen to fire on running processes."""
    pages = {name for name, rule in RULES.items() if rule["labels"]["severity"] == "page"}
    drilled = [drill.alert for drills in (DRILLS, OF_GATEWAYS, OF_ROLLOUTS) for drill in drills]
    assert sorted(drilled) == sorted(pages)


def test_a_hurried_rule_is_the_same_rule() -> None:
    """Only ``for``, windows and thresholds in seconds change, all of them alike."""
    rule = RULES["LedgerBehind"]
    assert hurried(rule, 1.0)["expr"] == rule["expr"]
    assert hurried(rule, 10, (120,)) == {**rule, "expr": rule["expr"].replace("> 120", "> 12"), "for": "6000ms"}
    assert hurried(RULES["BillsCapped"], 60)["expr"] == "increase(penstock_capped_bills_total[10000ms]) > 0"
