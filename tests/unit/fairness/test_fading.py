"""A count that fades."""

from penstock.fairness.fading import Fading


def test_a_use_counts_half_after_its_half_life() -> None:
    """Two uses a while ago count as much as one now."""
    twice = Fading().plus(1.0, 0.0, 60.0).plus(1.0, 0.0, 60.0)
    assert twice.now(60.0, 60.0) == 1.0
    assert twice.plus(1.0, 60.0, 60.0).now(60.0, 60.0) == 2.0
    assert twice.now(-1.0, 60.0) == 2.0, "a clock that goes back makes nothing more of it"
