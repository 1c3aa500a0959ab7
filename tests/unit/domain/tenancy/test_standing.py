"""The ladder of standings."""

import itertools

import pytest

from penstock.domain.tenancy.standing import Standing, standing_of
from penstock.domain.tenancy.tenant import Plan, Priority


def test_the_order_is_the_stated_one() -> None:
    """Shadow goes first, then batch, over quota, free, paid; paid interactive work goes last."""
    assert [one.name for one in sorted(Standing)] == ["SHADOW", "BATCH", "OVER_QUOTA", "FREE", "PAID", "INTERACTIVE"]


@pytest.mark.parametrize(
    ("plan", "over_quota", "standing"),
    [
        (Plan(), False, Standing.PAID),
        (Plan(priority=Priority.INTERACTIVE), False, Standing.INTERACTIVE),
        (Plan(priority=Priority.BATCH), False, Standing.BATCH),
        (Plan(paid=False), False, Standing.FREE),
        (Plan(paid=False, priority=Priority.INTERACTIVE), False, Standing.FREE),
        (Plan(priority=Priority.INTERACTIVE), True, Standing.OVER_QUOTA),
        (Plan(priority=Priority.BATCH), True, Standing.BATCH),
    ],
)
def test_plan_and_quota_make_the_standing(plan: Plan, over_quota: bool, standing: Standing) -> None:
    """Class, tier and whether the request runs over its quota decide, and nothing that a caller could send."""
    assert standing_of(plan, over_quota=over_quota) is standing


def test_going_over_quota_never_raises_a_standing() -> None:
    """Whoever yields stands where it stood or lower."""
    for priority, paid in itertools.product(Priority, (True, False)):
        plan = Plan(priority=priority, paid=paid)
        assert standing_of(plan, over_quota=True) <= standing_of(plan)
