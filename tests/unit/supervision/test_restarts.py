"""When a dead process is started again."""

import pytest

from penstock.supervision.restarts import RestartPolicy

POLICY = RestartPolicy(first_wait_s=0.1, max_wait_s=1.0, max_deaths=5, window_s=60.0)


@pytest.mark.parametrize(("deaths", "wait_s"), [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0)])
def test_the_wait_doubles_up_to_its_bound(deaths: int, wait_s: float) -> None:
    """Each death within the window doubles the wait, and the bound holds."""
    assert POLICY.wait_s([100.0 + i for i in range(deaths)], 104.0) == pytest.approx(wait_s)


def test_a_crash_loop_is_given_up() -> None:
    """One death more than allowed within the window ends the restarts."""
    assert POLICY.wait_s([100.0 + i for i in range(6)], 105.0) is None


def test_old_deaths_are_forgiven() -> None:
    """Deaths before the window don't count, so a process that died long ago starts at once again."""
    assert POLICY.wait_s([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0], 100.0) == pytest.approx(0.1)
