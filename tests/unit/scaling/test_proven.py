"""Versions whose leader is new, that start, lost their sleeper, or were set lower by hand, with and without a curve."""

from dataclasses import replace

from penstock.domain.fleet.demand import Demand, Rate, VersionDemand
from penstock.domain.fleet.scaling import Act
from penstock.domain.fleet.versions import Running
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.stage import ASKED, BY_HAND
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
