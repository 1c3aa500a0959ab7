import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import WorkerId
from penstock.gateway.dispatch import Breakers, BreakerSettings, CircuitSettings, RetryBudget
from penstock.gateway.dispatch.retries import backoff_s

WORKERS = [WorkerId(f"w{n}") for n in range(4)]
STEADY = BreakerSettings(
    failures=3, circuit=CircuitSettings(open_s=1.0, most_open_s=8.0, jitter_ratio=0.0, probe_s=5.0)
)


def fresh() -> Breakers:
    """Return breakers without jitter."""
    return Breakers(random.Random(0), STEADY)


def is_out(breakers: Breakers, now: float) -> bool:
    """Tell whether worker 0 is left alone."""
    return WORKERS[0] in breakers.ejected(WORKERS, now)


def test_opens_after_failures_in_a_row() -> None:
    """One failure is nobody's fault; some in a row open the breaker, a success between starts anew."""
    breakers = fresh()
    assert [breakers.failed(WORKERS[0], 0.0) for _ in range(2)] == [False, False]
    breakers.succeeded(WORKERS[0], 0.0)
    assert [breakers.failed(WORKERS[0], 0.0) for _ in range(3)] == [False, False, True]
    assert is_out(breakers, 0.5)


def test_connect_failure_opens_at_once() -> None:
    """Nobody listens: one failure is enough."""
    breakers = fresh()
    assert breakers.failed(WORKERS[0], 0.0, at_once=True)
    assert is_out(breakers, 0.0)


def test_half_open_lets_one_probe_through() -> None:
    """After the open time one request may try; until it ended nobody else does."""
    breakers = fresh()
    breakers.failed(WORKERS[0], 0.0, at_once=True)
    assert not is_out(breakers, 1.0)
    breakers.sent(WORKERS[0], 1.0)
    assert is_out(breakers, 1.1)
    breakers.succeeded(WORKERS[0], 1.2)
    assert not is_out(breakers, 1.2)


def test_lost_probe_is_forgotten() -> None:
    """A probe nobody reported on does not eject for ever."""
    breakers = fresh()
    breakers.failed(WORKERS[0], 0.0, at_once=True)
    breakers.sent(WORKERS[0], 1.0)
    assert is_out(breakers, 5.9)
    assert not is_out(breakers, 6.1)


def test_open_time_grows_and_is_bounded() -> None:
    """Each failed probe doubles the open time, up to a limit."""
    breakers = fresh()
    now, waits = 0.0, []
    for _ in range(6):
        breakers.failed(WORKERS[0], now, at_once=True)
        wait = 0.0
        while is_out(breakers, now + wait):
            wait += 0.25
        waits.append(wait)
        now += wait
    assert waits == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_failures_while_open_change_nothing() -> None:
    """Requests that were under way when it opened don't prolong it."""
    breakers = fresh()
    breakers.failed(WORKERS[0], 0.0, at_once=True)
    assert not any(breakers.failed(WORKERS[0], 0.5) for _ in range(10))
    assert not is_out(breakers, 1.0)


_EVENTS = st.lists(
    st.tuples(st.sampled_from(["fail", "at_once", "sent", "ok", "wait"]), st.integers(0, 3), st.floats(0.0, 3.0)),
    max_size=60,
)


@given(_EVENTS, st.integers(1, 4))
def test_never_everybody_is_ejected(events: list[tuple[str, int, float]], count: int) -> None:
    """Whatever happened, somebody may be asked."""
    breakers, now, workers = fresh(), 0.0, WORKERS[:count]
    for what, index, seconds in events:
        if what == "wait":
            now += seconds
        elif what == "sent":
            breakers.sent(WORKERS[index], now)
        elif what == "ok":
            breakers.succeeded(WORKERS[index], now)
        else:
            breakers.failed(WORKERS[index], now, at_once=what == "at_once")
        assert len(breakers.ejected(workers, now)) < len(workers)


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
        elif budget.withdraw(now):
            retries += 1
        assert 0.0 <= budget.level <= capacity
    assert retries <= capacity + ratio * requests + floor_per_s * now + 1e-6


def test_floor_keeps_retries_possible() -> None:
    """At low traffic time alone refills the budget."""
    budget = RetryBudget(ratio=0.0, capacity=1.0, floor_per_s=0.5)
    assert [budget.withdraw(at) for at in (0.0, 1.0, 2.1)] == [True, False, True]


@given(st.integers(0, 1_000), st.integers())
def test_backoff_is_bounded(attempt: int, seed: int) -> None:
    """The wait grows, within bounds."""
    assert 0.0 <= backoff_s(attempt, random.Random(seed), first_s=0.05, most_s=1.0) <= 1.0
