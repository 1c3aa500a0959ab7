"""What is counted of comparisons between rules."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.serving.agreement import Agreement, Counts, Pair, between, reported

PAIR = Pair(Alias("auto"), "rest", VersionId("big@1"), "short", VersionId("small@2"))


def told(tenant: str, *, pair: Pair = PAIR, **counts: int) -> Agreement:
    return Agreement(pair=pair, tenant=TenantId(tenant), counts=Counts(**counts))


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
    """No ratio, no tenant, and an interval of everything."""
    (one,) = reported([told("acme", answered=9)])
    assert (one.forms_ratio, one.texts_ratio, one.alike_ratio, one.price_ratio, one.most) == (None,) * 5
    assert (one.tenants, one.counts.answered) == (0, 9)
    assert between(0, 0) == (0.0, 1.0)


def test_each_kind_of_answer_has_its_own_ratio() -> None:
    """Who could not, and what nobody can tell, is no disagreement and stands beside."""
    kinds = told("acme", pairs=15, failed=3, untold=2, forms=8, forms_agreed=6, texts=2, texts_agreed=1, alike=150)
    (one,) = reported([kinds, told("acme", paid=1_000, other_paid=250)])
    assert (one.forms_ratio, one.texts_ratio, one.alike_ratio, one.price_ratio) == (0.75, 0.5, 0.75, 0.25)


def test_pairs_are_added_up_and_say_how_many_tenants_are_behind_them() -> None:
    """Over gateways, minutes and tenants; another version of the model is another pair."""
    other = PAIR._replace(other_version=VersionId("small@3"))
    rows = [told("a", pairs=1, pair=other), told("a", pairs=6), told("b", pairs=1), told("a", pairs=1)]
    first, second = reported([*rows, told("quiet", answered=1)])
    assert (first.pair, first.counts.pairs, first.tenants, first.most) == (PAIR, 8, 2, 7 / 8)
    assert (second.pair, second.counts.pairs, second.tenants, second.most) == (other, 1, 1, 1.0)
