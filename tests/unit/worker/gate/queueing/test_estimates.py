"""The pace follows what the engine really does."""

import pytest

from penstock.worker.gate.queueing.constants import SLOWNESS_HALF_LIFE_S
from penstock.worker.gate.queueing.estimates import ServiceRate, Slowness, Stay


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


def test_bursts_of_an_engine_with_little_to_do_do_not_raise_the_pace() -> None:
    """Two steps a millisecond apart, once a second, are two steps in a second, however quick the second one was."""
    pace = ServiceRate(initial=300.0)
    pace.busy(0.0)
    for second in range(1, 100):
        pace.did(100.0, float(second), full=False)
        pace.did(100.0, second + 0.001, full=False)
    assert pace.per_s == pytest.approx(300.0)


def test_a_stay_is_learned_by_cost() -> None:
    """Nothing is expected before the first request; then a request of twice the cost is expected twice as long."""
    stay = Stay()
    assert stay.of(100.0) == 0.0
    for _ in range(300):
        stay.learn(1.0, 100.0)
        stay.learn(3.0, 100.0)
    assert stay.of(200.0) == pytest.approx(4.0, rel=0.05)


def test_an_engine_that_takes_longer_than_predicted_is_slow() -> None:
    """The factor is that of its first tokens; as predicted, or quicker by a cached prefix, it is one."""
    for times, expected in ((6.0, 6.0), (1.0, 1.0), (0.2, 1.0)):
        slowness = Slowness()
        assert slowness.ratio(0.0) == 1.0
        for second in range(60):
            slowness.learn(0.5 * times, 0.5, float(second))
        assert slowness.ratio(59.0) == pytest.approx(expected, rel=0.1)


def test_one_late_token_says_little_and_old_ones_nothing() -> None:
    """A worker that got no requests for its slowness is tried again."""
    slowness = Slowness()
    slowness.learn(0.06, 0.02, 0.0)
    assert slowness.ratio(0.0) < 1.5
    for second in range(60):
        slowness.learn(3.0, 0.5, float(second))
    assert slowness.ratio(60.0) > 5.0
    assert slowness.ratio(60.0 + 10 * SLOWNESS_HALF_LIFE_S) < 1.5
