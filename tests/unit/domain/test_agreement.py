"""What is counted of comparisons between rules."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.agreement import Agreement, Counts, Pair, between, together
from penstock.domain.ids import Alias, VersionId

PAIR = Pair(Alias("auto"), "rest", VersionId("big@1"), "short", VersionId("small@2"))


@given(whole=st.integers(1, 5_000), data=st.data())
def test_the_interval_is_wilsons(whole: int, data: st.DataObject) -> None:
    """By its definition: at either end what was seen lies 1.96 standard deviations away; never outside of 0 to 1."""
    part = data.draw(st.integers(0, whole))
    low, high = between(part, whole)
    assert 0.0 <= low <= part / whole <= high <= 1.0
    for end in (low, high):
        away = 1.96 * math.sqrt(end * (1 - end) / whole)
        assert abs(part / whole - end) == pytest.approx(away, abs=1e-6)


def test_of_nothing_nothing_is_known() -> None:
    """No ratio, and an interval of everything."""
    one = Agreement(pair=PAIR, counts=Counts(pairs=3, failed=2, untold=1))
    assert (one.ratio, one.alike_ratio, one.price_ratio) == (None, None, None)
    assert between(0, 0) == (0.0, 1.0)


def test_who_could_not_and_who_is_unknown_are_no_disagreement() -> None:
    """Four of five that can be told agree; the rest stands beside."""
    counts = Counts(pairs=10, agreed=4, failed=3, untold=2, scored=2, alike=150, paid=1_000, other_paid=250)
    one = Agreement(pair=PAIR, counts=counts)
    assert (counts.differed, one.ratio, one.alike_ratio, one.price_ratio) == (1, 0.8, 0.75, 0.25)


def test_pairs_are_added_up_each_for_itself() -> None:
    """Over gateways and minutes; another version of the model is another pair."""
    other = PAIR._replace(other_version=VersionId("small@3"))
    told = [Agreement(pair=pair, counts=Counts(pairs=1, agreed=1)) for pair in (other, PAIR, PAIR)]
    assert [(one.pair, one.counts.pairs) for one in together(told)] == [(PAIR, 2), (other, 1)]
