"""Room for engines on one machine: cores, memory, and who sleeps."""

from dataclasses import replace

import pytest

from penstock.domain.fleet.demand import Demand
from penstock.domain.fleet.scaling import Act
from penstock.domain.fleet.versions import Running
from penstock.domain.ids import VersionId, WorkerId
from penstock.scaling.room import PROCESS_BYTES, USED_RATIO, Machine, room_of
from penstock.scaling.stage import FleetScene, scale
from tests.unit.scaling.test_stage import V, Version, asked, fleet

SMALL, LARGE = VersionId("small@1"), VersionId("large@1")
SIZES = {SMALL: 0, LARGE: 4 * PROCESS_BYTES}


def running(*versions: VersionId) -> list[Running]:
    return [Running(worker=WorkerId(f"w{number}"), version=one, started_at=0.0) for number, one in enumerate(versions)]


def machine(cores: int, processes: float) -> Machine:
    return Machine(cores=cores, memory_bytes=round(processes * PROCESS_BYTES / USED_RATIO) + 1)


def test_the_scarcer_of_cores_and_memory_binds() -> None:
    """Each engine takes a core, its bytes, and a process's."""
    assert room_of(machine(4, 100), SIZES, running(SMALL), ()).more(SMALL) == 3
    assert room_of(machine(100, 7), SIZES, running(SMALL), ()).more(LARGE) == 1
    assert room_of(machine(1, 7), SIZES, running(SMALL, SMALL), ()).more(SMALL) == 0
    assert room_of(Machine(cores=99, memory_bytes=10**10), {}, (), ()).more(SMALL) == 6, "9 GB, by 1.4 GB"


def test_a_sleeper_takes_nothing_and_a_decision_takes_at_once() -> None:
    """Two versions of one tick do not both get the last core."""
    room = room_of(machine(2, 100), SIZES, running(SMALL, SMALL), {WorkerId("w0")})
    assert room.more(SMALL) == 1
    assert room.less(SMALL, 1).more(LARGE) == 0


def test_a_wish_beyond_the_machine_is_said_and_not_started() -> None:
    """Five are needed, and there is room for two."""
    version = Version()
    processes = [Running(worker=WorkerId("w0"), version=V, started_at=0.0)]
    version.room = room_of(machine(2, 100), {}, processes, ())
    record = version.tick(0.0, asked(8.0), *fleet(1, 0.0), running=tuple(processes))
    assert (record.act, record.after, record.cut) == (Act.OUT, 2, "the machine has room for 2")
    assert version.tick(1.0, asked(3.2), *fleet(1, 1.0), running=tuple(processes)).cut == ""


def test_of_two_bounds_the_one_that_cuts_is_named() -> None:
    """The machine has room for all that is wanted; the file has not."""
    version = Version(most=2)
    version.room = room_of(machine(9, 100), {}, (), ())
    assert version.tick(0.0, asked(8.0), *fleet(1, 0.0)).cut == "most 2"


@pytest.mark.parametrize(("before", "awake", "left"), [(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 2)])
def test_a_version_leaves_the_next_one_the_room_that_it_does_not_take(before: int, awake: int, left: int) -> None:
    """Four cores: what has a process takes nothing anew, what was decided and has none yet takes its core."""
    first, second = Version(most=2, deployed=before), Version(most=9)
    processes = tuple(Running(worker=WorkerId(f"w{one}"), version=V, started_at=0.0) for one in range(awake))
    running = (*processes, Running(worker=WorkerId("o"), version=LARGE, started_at=0.0))
    first.tick(0.0, asked(0.0), *fleet(before, 0.0), running=processes)
    other = replace(second.scaled, version=LARGE)
    crowd = Demand(versions={one: asked(8.0).versions[V] for one in (V, LARGE)}, gateways=1)
    scene = FleetScene(
        scaled=(first.scaled, other),
        seen=fleet(before, 1.0),
        running=running,
        demand=crowd,
        lease_s=5.0,
        room=room_of(machine(4, 100), {}, running, ()),
    )
    records = scale(first.state, scene, 1.0).records
    assert [one.after for one in records] == [2, left]


def test_a_machine_that_shrank_ends_nothing() -> None:
    """What runs was started: only new engines are kept away."""
    version = Version(deployed=3)
    processes = tuple(Running(worker=WorkerId(f"w{one}"), version=V, started_at=0.0) for one in range(3))
    version.room = room_of(machine(1, 100), {}, processes, ())
    record = version.tick(0.0, asked(8.0), *fleet(3, 0.0), running=processes)
    assert (record.act, record.after) == (Act.HOLD, 3)
    assert record.cut == "the machine has room for 3"


@pytest.mark.parametrize(("per_s", "places", "after"), [(0.0, 2, 2), (8.0, 2, 2), (0.0, 3, 3), (0.0, 9, 3)])
def test_a_floor_above_what_the_host_holds_is_cut_and_named(per_s: float, places: int, after: int) -> None:
    """Three at least, with two places: two are started, and the record says why no third is."""
    version = Version(least=3, most=4)
    version.scaled = replace(version.scaled, bounds=version.scaled.bounds.within(places))
    record = version.tick(0.0, asked(per_s), *fleet(1, 0.0))
    says = "the host has places for 2" if places == 2 else "floor 3"
    assert (record.after, record.cut, version.target.least) == (after, says, after)
