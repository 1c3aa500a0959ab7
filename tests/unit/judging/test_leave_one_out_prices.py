"""Prices without each tenant: what is named is somebody's, what is not is one tenant's, and memory is bounded."""

import math

from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.rollout.arms import PRICE_BUCKETS, ArmCounts, Priced, Stratum, Times
from penstock.judging.e_process import EProcess
from penstock.judging.leave_one_out import MOST_PRICED, PriceLeaveOneOut
from penstock.judging.prices import NAMELESS, Prices, prices
from penstock.judging.strata import Ranks

WHERE = Stratum(8, 0)
ODDS = (math.log(1e5), math.log(1e6))
CAPS = (1.0, 4.0)


def times(place: int, many: int = 1) -> tuple[Times, ...]:
    return (Times(WHERE, ((place, many),)),)


def arm(**counts: object) -> ArmCounts:
    who = {"alias": Alias("chat"), "version": VersionId("v"), "worker": WorkerId("w")}
    return ArmCounts(**who, **counts)  # type: ignore[arg-type]  # fields by name


class Side:
    """The incumbent's prices, those of all, and the bets without each, fed as the judge does."""

    def __init__(self) -> None:
        self.ranks, self.abort, self.brake = Ranks(PRICE_BUCKETS), EProcess(forgets=True), EProcess(forgets=True)
        self.leave_one_out = PriceLeaveOneOut(0.75, 0.80)
        self.at = 0

    def observe(self, mine: dict[str, int], theirs: dict[str, int]) -> None:
        """Take one answer of each of these tenants, with its bucket."""
        self.at += 1
        given = Prices(
            candidate={TenantId(who): times(place) for who, place in mine.items()},
            incumbent={TenantId(who): times(place) for who, place in theirs.items()},
        )
        self.leave_one_out.observe(self.at, (self.ranks, self.abort, self.brake), given, CAPS)
        self.ranks.add(self.at, [one for of in given.incumbent.values() for one in of])
        counts, _ = self.ranks.scores([one for of in given.candidate.values() for one in of])
        if counts:
            self.abort.observe(counts, 0.75, CAPS[0])
            self.brake.observe(counts, 0.80, CAPS[1])

    @property
    def said(self) -> tuple[bool, bool]:
        """Tell whether it is enough with everybody, and without any one."""
        enough = self.abort.reaches(ODDS[0]) or self.brake.reaches(ODDS[1])
        return enough, self.leave_one_out.holds_without_any(*ODDS)


def test_what_has_no_name_is_one_tenants() -> None:
    """A gateway that names nobody, or not all, is believed as little as one tenant."""
    known = (Priced(TenantId("a"), times(50), ((4, 1),)),)
    given = prices([arm(price=times(50, 3), paired=((4, 3),), priced=known)], [arm(price=times(40))])
    assert given.answers() == ({TenantId("a"): 2, NAMELESS: 4}, {NAMELESS: 1})
    assert (given.told(), given.told(NAMELESS)) == ({1.0: 3}, {1.0: 1})
    assert prices([arm(price=times(50), priced=(Priced(TenantId("a"), times(50)),))], []).answers()[0] == {"a": 1}


def test_two_tenants_agree_and_one_does_not() -> None:
    """On either side: who alone is dear at the candidate, and who alone is cheap at the incumbent."""
    theirs = {"x": 50, "y": 50, "z": 50}
    one, two, cheap = Side(), Side(), Side()
    for _ in range(300):
        one.observe({"a": 90, "x": 50}, theirs)
        two.observe({"a": 90, "b": 90}, theirs)
        cheap.observe({"x": 51, "y": 51}, {"x": 52, "y": 50, "a": 10})
    assert (one.said[1], two.said) == (False, (True, True))
    assert cheap.said[1] is False


def test_who_comes_later_had_no_part_in_what_was_before() -> None:
    """A candidate that two tenants speak against is not saved by a third that joins in."""
    side = Side()
    for _ in range(200):
        side.observe({"a": 90, "b": 90}, {"x": 50, "y": 50})
    side.observe({"c": 50}, {"c": 50, "x": 50})
    assert side.said == (True, True)


def test_one_tenant_that_has_all_of_the_incumbent_is_nothing_to_compare_with() -> None:
    """Without it nobody is left whose answers could be called cheaper."""
    side = Side()
    for _ in range(200):
        side.observe({"a": 90, "b": 90}, {"x": 50})
    assert side.said == (True, False)


def test_many_strays_hide_no_loud_tenant() -> None:
    """Tenants that come once are looked at while there is room, and whoever is loud takes the place of one of them."""
    side = Side()
    for number in range(600):
        strays = {f"t{number}": 50} if number < 300 else {}
        loud = {"mallory": 90} if number >= 100 else {}
        side.observe({**strays, **loud}, {"x": 50, f"u{number}": 50})
        assert len(side.leave_one_out._without) <= MOST_PRICED
    assert side.said == (True, False)


def test_who_had_most_to_say_stays_though_it_is_silent_later() -> None:
    """Nine tenants that come with far more answers take others' places: what it said is in their bets."""
    side = Side()
    for _ in range(100):
        side.observe({"mallory": 90}, {"x": 50, "y": 50})
    assert side.said == (True, False)
    for _ in range(600):
        side.observe({}, {f"t{number}": 50 for number in range(9)})
    assert not side.leave_one_out._without.keys() & {"x", "y"}
    assert side.said == (True, False)
