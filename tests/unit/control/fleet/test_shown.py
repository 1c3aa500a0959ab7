"""The fleet as metrics: what is wanted, what is there, why others went; and nothing that is not known."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from penstock.control.fleet.shown import FleetMetrics
from penstock.domain.fleet.versions import Deployment
from penstock.domain.fleet.worker import WorkerEnd, WorkerState
from penstock.telemetry.metrics import Metrics
from tests.support.samples import control_plane as things


class Shown:
    """A controller's metrics of its fleet."""

    def __init__(self) -> None:
        metrics = Metrics()
        self.registry: CollectorRegistry = metrics.registry
        self.fleet = FleetMetrics(metrics)

    def number(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"version": str(things.TINY), **labels})

    @property
    def wanted(self) -> float | None:
        return self.number("penstock_workers_wanted")

    def workers(self, state: WorkerState = WorkerState.READY) -> float | None:
        return self.number("penstock_workers", state=state)

    def ends(self, end: WorkerEnd) -> float | None:
        return self.number("penstock_worker_ends_total", reason=end)


@pytest.fixture
def shown() -> Shown:
    """Return the metrics of a controller that knows nothing yet."""
    return Shown()


TWO = (Deployment(version=things.TINY, replicas=2),)
AFTER = things.NOW - 5.0


def test_a_version_without_workers_has_0_ready(shown: Shown) -> None:
    """That nobody is ready is known from the first look on: no series would be no alert."""
    assert [shown.wanted, shown.workers()] == [None, None]
    shown.fleet.show(TWO, (), AFTER)
    assert [shown.wanted, shown.workers()] == [2.0, 0.0]


def test_a_worker_that_falls_silent_is_lost(shown: Shown) -> None:
    """Who was there and says nothing more counts once, whether its last word is still known or not."""
    before, silent = things.seen(things.report("w1")), things.seen(things.report("w1"), at=AFTER)
    assert shown.ends(WorkerEnd.LOST) is None
    shown.fleet.show(TWO, (before, things.seen(things.report("w2"))), AFTER)
    assert shown.ends(WorkerEnd.LOST) == 0.0
    shown.fleet.show(TWO, (silent,), AFTER)
    assert shown.ends(WorkerEnd.LOST) == 2.0
    shown.fleet.show(TWO, (silent,), AFTER)
    assert shown.ends(WorkerEnd.LOST) == 2.0


@pytest.mark.parametrize("state", [WorkerState.FAILED, WorkerState.STOPPED, WorkerState.DRAINING])
def test_who_said_that_it_goes_is_not_lost(shown: Shown, state: WorkerState) -> None:
    """Nor is a worker of which only another controller knew, nor one from before this one led."""
    shown.fleet.show(TWO, (things.seen(things.report("w1")),), AFTER)
    end = WorkerEnd.DRAINED if state is WorkerState.DRAINING else None
    shown.fleet.show(TWO, (things.seen(replace(things.report("w1", state=state), end=end), at=AFTER),), AFTER)
    shown.fleet.show(TWO, (things.seen(things.report("w3"), at=AFTER),), AFTER)
    assert shown.ends(WorkerEnd.LOST) == 0.0


def test_workers_are_counted_by_state(shown: Shown) -> None:
    """Each counts once, in the state of its last report; who has stopped counts no more."""
    states = {"w1": WorkerState.READY, "w2": WorkerState.READY, "w3": WorkerState.LOADING, "w4": WorkerState.STOPPED}
    shown.fleet.show(TWO, [things.seen(things.report(worker, state=state)) for worker, state in states.items()], AFTER)
    assert [shown.workers(state) for state in states.values()] == [2.0, 2.0, 1.0, 0.0]
    shown.fleet.show(TWO, [things.seen(things.report("w1"))], AFTER)
    assert (shown.workers(), shown.workers(WorkerState.LOADING)) == (1.0, 0.0)


def test_who_is_silent_counts_no_more(shown: Shown) -> None:
    """A killed worker said last that it is ready: found by a drill, it hid for ten minutes that nobody served."""
    silent = {"w1": WorkerState.READY, "w2": WorkerState.LOADING, "w3": WorkerState.FAILED}
    shown.fleet.show(TWO, [things.seen(things.report(w, state=s), at=AFTER) for w, s in silent.items()], AFTER)
    assert [shown.workers(state) for state in silent.values()] == [0.0, 0.0, 1.0]


def test_a_version_that_is_gone_is_shown_no_more(shown: Shown) -> None:
    """Series of versions that nobody wants and nobody runs don't pile up."""
    shown.fleet.show(TWO, [things.seen(things.report("w1"))], AFTER)
    shown.fleet.show((), [things.seen(things.report("w1"))], AFTER)
    assert [shown.wanted, shown.workers()] == [None, 1.0]
    shown.fleet.show((), (), AFTER)
    assert shown.workers() is None


def test_who_leads_no_more_shows_nothing(shown: Shown) -> None:
    """Another controller's fleet is not known here: its last view would stand beside the other's."""
    shown.fleet.show(TWO, [things.seen(things.report("w1"))], AFTER)
    shown.fleet.unknown()
    assert [shown.wanted, shown.workers()] == [None, None]
    shown.fleet.show(TWO, (), AFTER)
    assert [shown.wanted, shown.workers()] == [2.0, 0.0]


def test_reasons_begin_at_0(shown: Shown) -> None:
    """A counter that appears at 1 never rose for Prometheus, so that the first worker would be missed."""
    shown.fleet.show(TWO, (), AFTER)
    assert {shown.ends(end) for end in WorkerEnd} == {0.0}
    shown.fleet.ended(replace(things.report("w1"), end=WorkerEnd.WRONG_ANSWERS))
    shown.fleet.show(TWO, (), AFTER)
    assert (shown.ends(WorkerEnd.WRONG_ANSWERS), shown.ends(WorkerEnd.GAVE_UP)) == (1.0, 0.0)
