import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import OverLimit
from penstock.domain.ids import TenantId
from penstock.gateway.admission.limiter import FIRST_GUESS_S, ConcurrencyLimiter

A, B = TenantId("a"), TenantId("b")


def test_a_tenant_at_its_bound_is_refused_and_others_are_not() -> None:
    """One tenant's bound is no business of another's."""
    limiter = ConcurrencyLimiter()
    limiter.enter(A, 2)
    limiter.enter(A, 2)
    with pytest.raises(OverLimit):
        limiter.enter(A, 2)
    limiter.enter(B, 2)
    assert (limiter.running(A), limiter.running(B)) == (2, 1)
    limiter.leave(A, 0.1)
    limiter.enter(A, 2)


def test_no_bound_means_no_refusal() -> None:
    """A plan without a bound of this kind is counted and let in."""
    limiter = ConcurrencyLimiter()
    for _ in range(100):
        limiter.enter(A, 0)
    assert limiter.running(A) == 100


def test_the_wait_is_the_tenants_mean_over_what_runs() -> None:
    """With four requests of ten seconds running, one should end within two and a half."""
    limiter = ConcurrencyLimiter()
    for _ in range(200):
        limiter.enter(A, 4)
        limiter.leave(A, 10.0)
    for _ in range(4):
        limiter.enter(A, 4)
    with pytest.raises(OverLimit) as caught:
        limiter.enter(A, 4)
    assert caught.value.retry_after_s == pytest.approx(2.5, rel=1e-3)


def test_a_tenant_without_history_gets_a_first_guess() -> None:
    """The wait is told even before anything has finished."""
    limiter = ConcurrencyLimiter()
    limiter.enter(A, 1)
    with pytest.raises(OverLimit) as caught:
        limiter.enter(A, 1)
    assert caught.value.retry_after_s == FIRST_GUESS_S


def test_memory_is_bounded_and_running_requests_are_never_forgotten() -> None:
    """Many idle tenants make room, those at work stay counted."""
    limiter = ConcurrencyLimiter(most_remembered=10)
    limiter.enter(A, 0)
    for i in range(100):
        limiter.enter(TenantId(f"t{i}"), 0)
        limiter.leave(TenantId(f"t{i}"), 1.0)
    assert len(limiter._counts) <= 10
    assert limiter.running(A) == 1


@given(st.lists(st.booleans(), max_size=60), st.integers(min_value=1, max_value=5))
def test_never_more_than_the_bound_and_never_less_than_none(steps: list[bool], limit: int) -> None:
    """Whatever the order of comings and goings, the count stays between zero and the bound."""
    limiter, held = ConcurrencyLimiter(), 0
    for comes in steps:
        if not comes and held:
            limiter.leave(A, 1.0)
            held -= 1
        elif comes and held < limit:
            limiter.enter(A, limit)
            held += 1
        elif comes:
            with pytest.raises(OverLimit):
                limiter.enter(A, limit)
        assert limiter.running(A) == held
