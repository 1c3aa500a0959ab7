"""Starts of workers: which count as supply, for how long, and what the measured ones are used for."""

from dataclasses import replace

import pytest

from penstock.domain.fleet.scaling import Act
from penstock.domain.fleet.versions import Running
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from tests.unit.scaling.test_stage import LONG, V, Version, asked, fleet, worker


def test_a_young_worker_stays() -> None:
    """A worker serves for twice its start before it may go."""
    version = Version()
    young = fleet(2, LONG, since=LONG - 2 * 40.0 + 1, start_s=40.0)
    version.tick(0.0, asked(0.1), *fleet(2, 0.0, start_s=40.0))
    record = version.tick(LONG, asked(0.1), *young)
    assert (record.act, "residency" in record.reason) == (Act.HOLD, True)
    assert version.tick(LONG + 1, asked(0.1), *[replace(one, at=LONG + 1) for one in young]).act is Act.IN


def test_those_coming_are_supply() -> None:
    """Five wanted, one serves and four start: nothing more is started, for as long as they report."""
    version = Version()
    version.tick(0.0, asked(8.0), *fleet(1, 0.0))
    coming = [worker(f"c{number}", 500.0, WorkerState.LOADING) for number in range(4)]
    record = version.tick(500.0, asked(8.0), *fleet(1, 500.0), *coming)
    assert (record.act, version.target.workers) == (Act.HOLD, 5)


def test_a_stuck_start_keeps_no_sleeper_asleep() -> None:
    """Past three times a start one that still reports counts no more if another one sleeps, which wakes; before, it
    does.
    """
    version = Version(parked=1)
    version.tick(0.0, asked(1.0), *fleet(1, 0.0, start_s=20.0))
    sleeper = worker("s", 0.0, WorkerState.SLEEPING, restart_s=3.0)
    for at, woken in ((61.0, ()), (61.5, (WorkerId("s"),))):
        stuck = worker("c", at, WorkerState.LOADING, since=1.0)
        version.tick(at, asked(1.0), stuck, replace(sleeper, at=at))
        assert (version.target.woken, version.workers) == (woken, 1)


def test_a_false_start_keeps_only_its_own_worker() -> None:
    """A worker that tells a start of hours stays; the others go after twice what theirs took."""
    version = Version(deployed=4)
    liar = worker("liar", 0.0, since=0.5, start_s=14_400.0)
    version.tick(0.0, asked(0.1), *fleet(3, 0.0, start_s=20.0), liar)
    for at in (1.0, LONG):
        version.tick(at, asked(0.1), *fleet(3, at, since=0.5, start_s=20.0), replace(liar, at=at))
    assert version.state.versions[V].start_s == 14_400.0
    assert [*version.target.cordoned] in ([WorkerId(f"w{number}")] for number in range(3))


def test_a_worker_that_never_reports_is_replaced_in_the_number() -> None:
    """Past three times its start a process without a report counts no more; before, it does."""
    version = Version()
    stuck = (Running(worker=WorkerId("p"), version=V, started_at=0.0),)
    version.tick(0.0, asked(3.0), *fleet(1, 0.0, start_s=20.0))
    version.tick(60.0, asked(3.0), *fleet(1, 60.0, start_s=20.0), running=stuck)
    assert version.target.workers == 2
    version.tick(60.5, asked(3.0), *fleet(1, 60.5, start_s=20.0), running=stuck)
    assert version.target.workers == 3
    draining = (replace(stuck[0], draining=True),)
    version.tick(61.0, asked(3.0), *fleet(1, 61.0, start_s=20.0), running=draining)
    assert version.target.workers == 2


@pytest.mark.parametrize(("number", "cordoned"), [(3, 0), (2, 0), (1, 1)])
def test_what_starts_goes_before_what_serves(number: int, cordoned: int) -> None:
    """Two serve and two start when a person takes some away: of those that serve as few go as can be."""
    version = Version(deployed=4)
    coming = [worker(f"c{one}", 0.0, WorkerState.LOADING) for one in range(2)]
    starts = tuple(Running(worker=one.report.worker, version=V, started_at=0.0) for one in coming)
    version.tick(0.0, asked(0.1), *fleet(2, 0.0), *coming, running=starts)
    version.scaled = replace(version.scaled, deployed=number)
    record = version.tick(1.0, asked(0.1), *fleet(2, 1.0), *coming, running=starts)
    assert (record.after, len(version.target.cordoned)) == (number, cordoned)


def test_a_start_begins_with_its_machine() -> None:
    """A worker's machine and image are part of its start: the next one is looked ahead for by all of it."""
    version = Version()
    one = fleet(1, 10.0, since=9.0, start_s=30.0)
    process = Running(worker=one[0].report.worker, version=V, started_at=0.0, machine_s=200.0, image_s=50.0)
    version.tick(0.0, asked(0.1), *fleet(1, 0.0))
    version.tick(10.0, asked(0.1), *one, running=(process,))
    assert version.state.versions[V].start_s == 280.0


def test_the_longest_known_start_is_expected() -> None:
    """Starts are measured when they end; wakes are none; before the first, the default."""
    version = Version()
    version.tick(0.0, asked(0.1), *fleet(1, 0.0))
    assert version.state.versions[V].start_s == 120.0
    version.tick(10.0, asked(0.1), *fleet(1, 10.0, since=9.0, start_s=30.0))
    assert version.state.versions[V].starts == (30.0,)
    version.tick(11.0, asked(0.1), *fleet(1, 11.0, since=10.0, start_s=30.0))
    assert version.state.versions[V].starts == (30.0,)
    version.tick(20.0, asked(0.1), *fleet(1, 20.0, since=19.0, start_s=20.0))
    assert version.state.versions[V].start_s == 30.0
    for number in range(7):
        assert version.state.versions[V].start_s == 30.0
        at = 30.0 + number
        version.tick(at, asked(0.1), *fleet(1, at, since=at, start_s=25.0))
    assert version.state.versions[V].start_s == 25.0


def test_a_wake_is_the_lead_if_one_sleeps() -> None:
    """Growth is provided for over the time that the next worker takes: a wake's, else a start's, else one under way."""
    version = Version()
    sleeping = [worker(f"s{wake_s}", 0.0, WorkerState.SLEEPING, restart_s=wake_s) for wake_s in (9.0, 3.0)]
    version.tick(0.0, asked(1.0), *fleet(1, 0.0), *sleeping)
    assert version.state.versions[V].history.lead_s == 3.0
    version.tick(20.0, asked(1.0), *fleet(1, 20.0, since=19.0, start_s=30.0))
    assert version.state.versions[V].history.lead_s == 30.0
    slow = (Running(worker=WorkerId("c"), version=V, started_at=-100.0),)
    version.tick(40.0, asked(1.0), *fleet(1, 40.0), worker("c", 40.0, WorkerState.LOADING), running=slow)
    assert version.state.versions[V].history.lead_s == 140.0


@pytest.mark.parametrize(("after_s", "counted"), [(4.9, 2), (5.0, 1)])
def test_a_lease_after_the_takeover_a_worker_may_be_silent(after_s: float, counted: int) -> None:
    """Within a lease of its takeover a controller calls no worker silent; from then on it does."""
    version = Version()
    version.since = 10.0
    version.tick(10.0 + after_s, asked(3.0), *fleet(1, 10.0 + after_s), worker("w9", 9.0))
    assert version.state.versions[V].pace.ready == counted
