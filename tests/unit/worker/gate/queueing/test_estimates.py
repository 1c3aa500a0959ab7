"""The pace follows what the engine really does."""

import pytest

from penstock.worker.gate.queueing.estimates import ServiceRate, Stay


def test_it_converges_to_the_measured_rate() -> None:
    """After a few half-lives the estimate is the measured rate."""
    pace = ServiceRate(initial=10.0, half_life_s=1.0)
    pace.busy(0.0)
    for step in range(1, 200):
        pace.did(50.0, step * 0.1, full=True)
    assert pace.per_s == pytest.approx(500.0, rel=0.01)


def test_idle_time_is_not_slowness() -> None:
    """An hour without work leaves the estimate where it was."""
    pace = ServiceRate(initial=100.0)
    pace.busy(0.0)
    pace.did(100.0, 1.0, full=True)
    pace.idle(1.0)
    before = pace.per_s
    pace.busy(3600.0)
    pace.did(1000.0, 3610.0, full=True)
    assert before == pytest.approx(100.0)
    assert pace.per_s == pytest.approx(100.0)


def test_an_engine_with_little_to_do_is_not_slow() -> None:
    """Without anybody waiting a low rate says nothing; a higher one than believed does."""
    pace = ServiceRate(initial=100.0, half_life_s=1.0)
    pace.busy(0.0)
    for step in range(1, 100):
        pace.did(1.0, step * 0.1, full=False)
    assert pace.per_s == pytest.approx(100.0)
    for step in range(100, 200):
        pace.did(40.0, step * 0.1, full=False)
    assert pace.per_s == pytest.approx(400.0, rel=0.05)


def test_a_stay_is_learned_by_cost() -> None:
    """Nothing is expected before the first request; then a request of twice the cost is expected twice as long."""
    stay = Stay()
    assert stay.of(100.0) == 0.0
    for _ in range(300):
        stay.learn(1.0, 100.0)
        stay.learn(3.0, 100.0)
    assert stay.of(200.0) == pytest.approx(4.0, rel=0.05)
