"""Versions whose leader is new, that start, lost their sleeper, or were set lower by hand, with and without a curve."""

from dataclasses import replace

import pytest

from penstock.domain.fleet.demand import Demand, Rate, VersionDemand
from penstock.domain.fleet.scaling import Act, Override
from penstock.domain.fleet.versions import Running
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.stage import ASKED, BY_HAND, NO_CURVE, State
from tests.unit.scaling.test_stage import V, Version, asked, fleet, worker


def test_a_start_longer_than_the_idle_time_is_no_idle_time() -> None:
    """A worker that starts is not ended before it served: no sleeper would be left for held requests."""
    version = Version(least=0, idle_s=60.0, parked=1)
    for now in (0.0, 50.0, 100.0):
        assert version.tick(now, asked(0.0), worker("w0", now, WorkerState.LOADING)).after == 1
    assert version.tick(150.0, asked(0.0), *fleet(1, 150.0)).after == 1
    assert version.tick(160.0, asked(0.0), *fleet(1, 160.0)).after == 0


def test_requests_start_a_version_whose_sleeper_is_lost_without_a_curve_too() -> None:
    """Nothing can be held for it then, so refused callers start it, and copies do not."""
    version = Version(least=0, idle_s=60.0, parked=1)
    version.scaled = replace(version.scaled, curve=None)
    version.tick(0.0, asked(0.0), *fleet(1, 0.0))
    assert version.tick(60.0, asked(0.0), *fleet(1, 60.0)).after == 0
    copies = Demand(versions={V: VersionDemand(rates={Standing.SHADOW: Rate(requests=1.0)})}, gateways=1)
    assert version.tick(61.0, copies).after == 0
    record = version.tick(62.0, asked(0.1))
    assert (record.act, record.after, record.reason) == (Act.OUT, 1, ASKED)


def test_a_lower_number_by_hand_cordons_at_once_without_a_curve_too() -> None:
    """What the window remembers and what nobody measured holds no worker that a person takes away."""
    version = Version(deployed=4)
    version.tick(0.0, asked(6.0), *fleet(4, 0.0))
    version.scaled = replace(version.scaled, deployed=2, curve=None)
    record = version.tick(1.0, asked(0.1), *fleet(4, 1.0))
    assert (record.act, record.after, record.reason) == (Act.IN, 2, BY_HAND)
    assert len(version.state.cordoned) == 2


@pytest.mark.parametrize(("workers", "leads_anew"), [(4, False), (4, True), (1, False)])
def test_an_override_that_ends_leaves_the_number_before_it_without_a_curve_too(
    workers: int, *, leads_anew: bool
) -> None:
    """Nobody measured what demand needs: two ran, and two run again, for a leader that saw the override alone too."""
    version = Version(deployed=2)
    version.scaled = plain = replace(version.scaled, curve=None)
    version.tick(0.0, asked(1.0), *fleet(2, 0.0))
    pinned = Override(workers=workers, until=60.0, who="anna", reason="a launch")
    version.scaled = replace(plain, bounds=plain.bounds.overridden(workers), override=pinned)
    assert version.tick(1.0, asked(1.0), *fleet(2, 1.0)).after == workers
    if leads_anew:
        version.state = State()
    assert version.tick(59.0, asked(1.0), *fleet(workers, 59.0)).after == workers
    version.scaled = plain
    assert version.tick(60.0, asked(1.0, missing=("g",)), *fleet(workers, 60.0)).after == max(2, workers)
    record = version.tick(61.0, asked(1.0), *fleet(workers, 61.0))
    assert (record.after, record.reason) == (2, NO_CURVE)
    assert version.tick(62.0, asked(1.0), *fleet(workers, 62.0)).act is Act.HOLD


def test_a_number_by_hand_during_an_override_is_the_one_after_it() -> None:
    """Three were set meanwhile: they come at its end, with nothing measured."""
    version = Version()
    plain = replace(version.scaled, curve=None)
    pinned = Override(workers=1, until=60.0, who="anna", reason="a launch")
    version.scaled = replace(plain, bounds=plain.bounds.overridden(1), override=pinned)
    version.tick(0.0, asked(1.0), *fleet(1, 0.0))
    version.scaled = replace(version.scaled, deployed=3)
    assert version.tick(1.0, asked(1.0), *fleet(1, 1.0)).after == 1
    version.scaled = replace(plain, deployed=3)
    assert version.tick(60.0, asked(1.0), *fleet(1, 60.0)).after == 3


def test_a_leader_of_late_adopts_workers_that_it_has_not_heard_yet() -> None:
    """Its predecessor's leases are old by then, and what serves or starts is neither silent nor superfluous."""
    version = Version(deployed=1)
    version.since = 100.0
    processes = tuple(Running(worker=WorkerId(f"w{one}"), version=V, started_at=80.0) for one in range(2))
    record = version.tick(100.1, asked(0.0), *fleet(1, 85.0), running=processes)
    assert (record.after, version.target.workers) == (2, 2)
    record = version.tick(104.0, asked(0.0), *fleet(2, 104.0), running=processes)
    assert (record.act, record.after, version.target.cordoned) == (Act.HOLD, 2, frozenset())
    assert version.tick(106.0, asked(0.0), *fleet(1, 106.0), running=processes).after == 2
