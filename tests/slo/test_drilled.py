"""Every alert that pages is drilled."""

from tests.integration.drills.test_drills import DRILLS, OF_GATEWAYS, OF_ROLLOUTS
from tests.support.monitoring.alert_rules import RULES


def test_every_page_has_a_drill() -> None:
    """Each alert that pages was seen to fire on running processes."""
    pages = {name for name, rule in RULES.items() if rule["labels"]["severity"] == "page"}
    drilled = [drill.alert for drills in (DRILLS, OF_GATEWAYS, OF_ROLLOUTS) for drill in drills]
    assert sorted(drilled) == sorted(pages)
