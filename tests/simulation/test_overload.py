"""Overload in virtual time: the fair queue keeps the engine on answers that come in time; without one they collapse."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from loadtests import overload
from loadtests.orders import QueueOrder
from loadtests.simulator.worker import Arrival
from penstock.domain.tenancy.standing import Standing
from tests.support.variants import drilled


@pytest.fixture(scope="module")
def capacity() -> float:
    """Return what the engine can do, in tokens of service per second."""
    return overload.capacity()


@pytest.mark.parametrize("load", [2.5, *drilled([1.0, 1.5])])
def test_goodput_stays_at_nine_tenths_of_capacity(
    capacity: float, load: float, record_property: Callable[[str, object], None]
) -> None:
    """At one, one and a half and two and a half times the capacity nine tenths of it are answers in time."""
    found = [overload.goodput(QueueOrder.FAIR, load, capacity, seed=seed) for seed in (1, 2)]
    record_property("goodput", [one.good_ratio for one in found])
    assert all(one.good_ratio >= 0.9 for one in found)


def test_without_admission_overload_is_worked_off_in_vain(capacity: float) -> None:
    """At two and a half times the capacity an open queue spends the engine on answers that come too late."""
    found = overload.goodput(QueueOrder.OPEN, 2.5, capacity)
    assert found.good_ratio < 0.5
    assert found.wasted_ratio > 0.5


def test_interactive_tenants_do_not_see_the_overload(capacity: float) -> None:
    """Tenants within their level's share are answered in time; the free tier bears more than the paying ones."""
    found = overload.goodput(QueueOrder.FAIR, 2.5, capacity)
    assert found.in_time[Standing.INTERACTIVE] > 0.95
    assert found.in_time[Standing.PAID] > 1.5 * found.in_time[Standing.FREE]


@pytest.mark.parametrize("timeout_s", [5.0, 15.0])
def test_who_names_no_deadline_waits_no_longer_than_its_queue_timeout(capacity: float, timeout_s: float) -> None:
    """At two and a half times the load, requests that were let wait begin in time, and only hopeless ones were
    refused.
    """
    per_s = 2.5 * capacity / (overload.MEAN_PROMPT + 2.0 * overload.MEAN_OUTPUT)
    coming = overload.traffic(per_s, random.Random(1), patience_s=0.0, span_s=overload.SPAN_S)
    records = overload.play(QueueOrder.FAIR, _timed(coming, timeout_s)).values()
    waits = sorted(wait for record in records for wait in record.ttft_s)
    assert waits[int(0.99 * len(waits))] < 1.3 * timeout_s
    assert sum(record.service for record in records) / overload.SPAN_S > 0.9 * capacity


def _timed(coming: Iterator[Arrival], timeout_s: float) -> Iterator[Arrival]:
    for one in coming:
        yield replace(one, work=replace(one.work, start_by=one.at + timeout_s))
