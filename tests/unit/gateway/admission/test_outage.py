"""The state of the limits store, and what becomes of each limit, as pure policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.gateway.admission.outage import POLICY, Breaker, Reach, Times, WhenAway, closes, held_alone, share


def draw(measure: Measure = Measure.TOKENS, amount: int = 1, capacity: int = 60) -> Draw:
    return Draw(
        key=f"tenant:t:{measure}",
        kind=MeterKind.BUCKET,
        measure=measure,
        amount=amount,
        capacity=capacity,
        refill_per_s=capacity / 60,
    )


def test_one_failure_opens_and_an_answer_half_opens() -> None:
    """Closed, open, half-open, closed: each step when its event and its time have come, and not before."""
    breaker = Breaker(Times(rest_s=1.0, patience_s=3.0))
    assert (breaker.failed(10.0), breaker.failed(10.1), breaker.reach) == (True, False, Reach.ALONE)
    assert [breaker.may_try(now) for now in (10.5, 11.0, 11.1)] == [False, False, True]
    breaker.answered(12.0)
    assert (breaker.reach, breaker.may_try(99.0)) == (Reach.RETURNING, False)
    assert [breaker.met(13.0, all_there=False), breaker.met(14.0, all_there=True)] == [False, True]
    assert breaker.reach is Reach.SHARED


def test_those_that_are_back_do_not_wait_for_ever() -> None:
    """A gateway that died meanwhile holds nobody up for longer than the patience."""
    breaker = Breaker(Times(rest_s=1.0, patience_s=3.0))
    breaker.failed(0.0)
    breaker.answered(2.0)
    assert [breaker.met(now, all_there=False) for now in (4.9, 5.0)] == [False, True]


def test_a_failure_on_the_way_back_begins_anew() -> None:
    """Half-open is left by the first failure, and the rest begins again."""
    breaker = Breaker(Times(rest_s=1.0))
    breaker.failed(0.0)
    breaker.answered(2.0)
    assert breaker.failed(2.5)
    assert [breaker.may_try(now) for now in (3.4, 3.5)] == [False, True]


@given(capacity=st.integers(1, 10**9), gateways=st.integers(1, 64), amount=st.integers(0, 10**9))
def test_the_shares_of_all_gateways_are_at_most_the_limit(capacity: int, gateways: int, amount: int) -> None:
    """In size and in refill, unless the limit is smaller than the number of gateways: then each gives one."""
    mine = share(draw(amount=amount, capacity=capacity), gateways)
    assert mine.capacity * gateways <= max(capacity, gateways)
    assert mine.refill_per_s * gateways == pytest.approx(capacity / 60)
    assert mine.amount == min(amount, mine.capacity)


def test_each_limit_has_its_own_policy() -> None:
    """Closed limits refuse, open ones are not counted, the rest is shared out."""
    draws = [draw(Measure.REQUESTS), draw(Measure.TOKENS), draw(Measure.SPEND)]
    assert closes(draws, POLICY)
    assert not closes(draws[:2], POLICY)
    mixed = {**POLICY, Measure.SPEND: WhenAway.SHARE, Measure.TOKENS: WhenAway.OPEN}
    assert not closes(draws, mixed)
    assert [one.measure for one in held_alone(draws, mixed, 2)] == [Measure.REQUESTS, Measure.SPEND]
