import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import TenantId
from penstock.gateway.dispatch.retries import RetryBudget, backoff_s

ACME, SHOP = TenantId("acme"), TenantId("shop")


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0.0, 0.5)), max_size=300),
    st.floats(0.0, 0.5),
    st.floats(1.0, 50.0),
    st.floats(0.0, 2.0),
)
def test_retries_stay_within_the_budget(
    events: list[tuple[bool, float]], ratio: float, capacity: float, floor_per_s: float
) -> None:
    """Retries never exceed the start, the share of requests and the floor together."""
    budget = RetryBudget(ratio=ratio, capacity=capacity, floor_per_s=floor_per_s)
    now, requests, retries = 0.0, 0, 0
    for is_request, passed in events:
        now += passed
        if is_request:
            budget.deposit()
            requests += 1
        elif budget.withdraw(ACME, now):
            retries += 1
        assert 0.0 <= budget.level <= capacity
    assert retries <= capacity + ratio * requests + floor_per_s * now + 1e-6


def test_floor_keeps_retries_possible() -> None:
    """At low traffic time alone refills the budget."""
    budget = RetryBudget(ratio=0.0, capacity=1.0, floor_per_s=0.5)
    assert [budget.withdraw(ACME, at) for at in (0.0, 1.0, 2.1)] == [True, False, True]


def test_one_tenant_cannot_spend_what_all_share() -> None:
    """Whoever retries without end leaves half of the budget to a tenant that comes later (finding 2)."""
    budget = RetryBudget(ratio=0.1, capacity=200.0, floor_per_s=0.0)
    greedy = sum(budget.withdraw(ACME, 0.0) for _ in range(1_000))
    other = sum(budget.withdraw(SHOP, 0.0) for _ in range(1_000))
    assert greedy == 100
    assert other >= 50


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 0.5)), max_size=400))
def test_who_retried_least_has_a_part_left(draws: list[tuple[int, float]]) -> None:
    """Whatever some tenants take, one that took none finds at least a retry for itself."""
    budget, now = RetryBudget(ratio=0.0, capacity=40.0, floor_per_s=0.0), 0.0
    for who, passed in draws:
        now += passed
        budget.withdraw(TenantId(f"tenant {who}"), now)
    assert budget.withdraw(SHOP, now)


@given(st.integers(0, 1_000), st.integers())
def test_backoff_is_bounded(attempt: int, seed: int) -> None:
    """The wait grows, within bounds."""
    assert 0.0 <= backoff_s(attempt, random.Random(seed), first_s=0.05, most_s=1.0) <= 1.0
