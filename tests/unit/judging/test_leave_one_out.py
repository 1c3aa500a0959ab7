"""Evidence without each tenant: one alone never decides, whenever it comes, and memory is bounded."""

import math

from penstock.domain.ids import TenantId
from penstock.judging.e_process import RARE, EProcess
from penstock.judging.leave_one_out import MOST_BLAMED, EventLeaveOneOut

TOLERATED, ODDS, CAP = 0.15, math.log(1000.0), 4.0


class Side:
    """The bets of all and those without each, fed as the judge does."""

    def __init__(self) -> None:
        self.all, self.leave_one_out = EProcess(RARE, forgets=True), EventLeaveOneOut()

    def observe(self, total: int, **so: int) -> None:
        bad = sum(so.values())
        self.leave_one_out.observe(self.all, {TenantId(who): many for who, many in so.items()}, total, TOLERATED, CAP)
        self.all.observe({1.0: bad, 0.0: total - bad}, TOLERATED, CAP)


def test_two_tenants_agree_and_one_does_not() -> None:
    """However long it goes on."""
    one, two = Side(), Side()
    for second in range(100):
        one.observe(2, a=1)
        two.observe(2, **{"ab"[second % 2]: 2})
    assert (one.all.reaches(ODDS), one.leave_one_out.holds_without_any(ODDS)) == (True, False)
    assert (two.all.reaches(ODDS), two.leave_one_out.holds_without_any(ODDS)) == (True, True)


def test_who_comes_later_had_no_part_in_what_was_before() -> None:
    """A candidate that two tenants speak against is not saved by a third that joins in."""
    side = Side()
    for second in range(60):
        side.observe(2, **{"ab"[second % 2]: 2})
    side.observe(1, c=1)
    assert side.leave_one_out.holds_without_any(ODDS)


def test_many_strays_hide_no_loud_tenant() -> None:
    """Those that matter least are forgotten, and all of them where the evidence of all is nothing."""
    side = Side()
    for second in range(5 * MOST_BLAMED):
        side.observe(4, a=2, **{f"t{second}": 1} if second % 4 == 0 else {})
    assert (side.all.reaches(ODDS), side.leave_one_out.holds_without_any(ODDS)) == (True, False)
    assert len(side.leave_one_out._without) <= MOST_BLAMED
    for _ in range(1000):
        side.observe(4)
    assert (side.all.has_gained, side.leave_one_out._without) == (False, {})
