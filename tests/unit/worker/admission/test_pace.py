"""The pace follows what the engine really does."""

import pytest

from penstock.worker.admission.pace import Pace, wait_s


def test_it_converges_to_the_measured_rate() -> None:
    """After a few half-lives the estimate is the measured rate."""
    pace = Pace(initial=10.0, half_life_s=1.0)
    pace.busy(0.0)
    for step in range(1, 200):
        pace.did(50.0, step * 0.1)
    assert pace.per_s == pytest.approx(500.0, rel=0.01)


def test_idle_time_is_not_slowness() -> None:
    """An hour without work leaves the estimate where it was."""
    pace = Pace(initial=100.0)
    pace.busy(0.0)
    pace.did(100.0, 1.0)
    pace.idle(1.0)
    before = pace.per_s
    pace.busy(3600.0)
    pace.did(1000.0, 3610.0)
    assert before == pytest.approx(100.0)
    assert pace.per_s == pytest.approx(100.0)


def test_the_wait_is_work_over_rate() -> None:
    """Twice the work or half the share is twice the wait."""
    pace = Pace(initial=100.0)
    assert wait_s(1000.0, 1.0, pace) == pytest.approx(10.0)
    assert wait_s(1000.0, 0.5, pace) == pytest.approx(20.0)
