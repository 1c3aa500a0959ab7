"""Overload in virtual time: the fair door keeps the engine on answers that come in time; without one they collapse."""

from collections.abc import Callable

import pytest

from penstock.domain.standing import Standing
from penstock.simulator import overload
from penstock.worker.gate_config import DoorOrder


@pytest.fixture(scope="module")
def capacity() -> float:
    """Return what the engine can do, in tokens of service per second."""
    return overload.capacity()


@pytest.mark.parametrize("load", [1.0, 1.5, 2.5])
def test_goodput_stays_at_nine_tenths_of_capacity(
    capacity: float, load: float, record_property: Callable[[str, object], None]
) -> None:
    """At one, one and a half and two and a half times the capacity nine tenths of it are answers in time."""
    found = [overload.goodput(DoorOrder.FAIR, load, capacity, seed=seed) for seed in (1, 2)]
    record_property("goodput", [one.good_ratio for one in found])
    assert all(one.good_ratio >= 0.9 for one in found)


def test_without_admission_overload_is_worked_off_in_vain(capacity: float) -> None:
    """At two and a half times the capacity an open door spends the engine on answers that nobody waits for any more."""
    found = overload.goodput(DoorOrder.OPEN, 2.5, capacity)
    assert found.good_ratio < 0.5
    assert found.wasted_ratio > 0.5


def test_interactive_tenants_do_not_see_the_overload(capacity: float) -> None:
    """Who is within its lane's share is answered in time; the free tier bears more than those who pay."""
    found = overload.goodput(DoorOrder.FAIR, 2.5, capacity)
    assert found.in_time[Standing.INTERACTIVE] > 0.95
    assert found.in_time[Standing.PAID] > 1.5 * found.in_time[Standing.FREE]
