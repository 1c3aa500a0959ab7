"""The local fleet on real processes: started, adopted, drained, reaped, and never mistaken for another program's."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from penstock.connectors.process import identity
from penstock.connectors.process.fleet import HostConfig, LocalFleet
from penstock.domain.fleet.versions import FleetPlan
from penstock.domain.ids import VersionId, WorkerId
from tests.support.clock import ManualClock
from tests.support.patience import until

pytestmark = pytest.mark.integration
VERSION = VersionId("tiny@000000000000")
OBEYS = "import signal, time; signal.signal(15, lambda *_: exit(0)); print('up', flush=True); time.sleep(60)"
REFUSES = OBEYS.replace("exit(0)", "None").replace("time.sleep(60)", "[time.sleep(1) for _ in range(60)]")
MakeFleet = Callable[..., LocalFleet]


@pytest.fixture
def make(tmp_path: Path, clock: ManualClock) -> Iterator[MakeFleet]:
    """Return a maker of fleets on one home, and end their processes."""
    fleets: list[LocalFleet] = []

    def fleet(program: str = OBEYS) -> LocalFleet:
        ground = HostConfig(
            run=tmp_path / "run",
            logs=tmp_path / "logs",
            command=lambda worker, version: (sys.executable, "-c", program, worker, version),
            grace_s=10.0,
        )
        fleets.append(LocalFleet(ground, clock))
        return fleets[-1]

    yield fleet
    for record in records(tmp_path):
        identity.kill_group(int(str(record["pid"])), str(record["start"]))
    for one in fleets:
        for child in one._children.values():
            child.wait()


def records(home: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((home / "run" / "workers").glob("*.json"))]


async def started(fleet: LocalFleet, home: Path, count: int = 1) -> list[int]:
    """Start workers and return their process ids once they said that they are up."""
    await fleet.apply(FleetPlan(start=(VERSION,) * count))
    logs = home / "logs"
    until("they are up", lambda: all("up" in path.read_text() for path in logs.glob("*.log")))
    return [int(str(record["pid"])) for record in records(home)]


async def test_a_worker_has_its_own_session_log_and_record(make: MakeFleet, tmp_path: Path) -> None:
    """A started worker is in the view, detached from us, with its output in a file of its own."""
    fleet = make()
    (pid,) = await started(fleet, tmp_path)
    (running,) = (await fleet.view()).running
    assert (running.version, running.draining) == (VERSION, False)
    assert os.getsid(pid) == pid
    assert (tmp_path / "logs" / f"worker-{running.worker}.log").exists()


async def test_a_new_fleet_adopts_the_living(make: MakeFleet, tmp_path: Path) -> None:
    """Another fleet on the same home sees the same workers, and can drain them."""
    first = make()
    await started(first, tmp_path, 2)
    second = make()
    assert await second.view() == await first.view()
    workers = [running.worker for running in (await second.view()).running]
    await second.apply(FleetPlan(drain=(workers[0],)))
    first_child = first._children[workers[0]]
    assert first_child.wait(timeout=5) == 0
    assert [running.worker for running in (await second.view()).running] == workers[1:]
    assert (await second.view()).deaths == ()


async def test_a_stopped_worker_hears_that_it_is_to_drain(make: MakeFleet, tmp_path: Path) -> None:
    """One that was stopped goes on, and ends by itself: its memory would else be held until its grace is over."""
    fleet = make()
    (pid,) = await started(fleet, tmp_path)
    os.kill(pid, signal.SIGSTOP)
    (running,) = (await fleet.view()).running
    await fleet.apply(FleetPlan(drain=(running.worker,)))
    assert fleet._children[running.worker].wait(timeout=5) == 0


async def test_a_death_is_noticed_and_cleaned_up(make: MakeFleet, tmp_path: Path, clock: ManualClock) -> None:
    """A killed worker is a death at the time it was noticed; its record and its zombie are gone."""
    fleet = make()
    (pid,) = await started(fleet, tmp_path)
    await fleet.view()
    os.kill(pid, signal.SIGKILL)
    until("it is dead", lambda: identity.started(pid) == "")
    clock.advance(3.0)
    view = await fleet.view()
    assert [death.at for death in view.deaths] == [clock.now()]
    assert (view.running, records(tmp_path)) == ((), [])
    assert not psutil.pid_exists(pid)
    clock.advance(601.0)
    assert (await fleet.view()).deaths == ()


async def test_who_died_before_we_came_is_no_death(make: MakeFleet, tmp_path: Path) -> None:
    """After a power cut the records of all workers are stale; that is held against no version."""
    (pid,) = await started(make(), tmp_path)
    os.kill(pid, signal.SIGKILL)
    until("it is dead", lambda: identity.started(pid) == "")
    view = await make().view()
    assert (view.running, view.deaths, records(tmp_path)) == ((), (), [])


async def test_a_worker_that_does_not_go_is_killed(make: MakeFleet, tmp_path: Path, clock: ManualClock) -> None:
    """After its grace a draining worker is killed, which is no death of the version."""
    fleet = make(REFUSES)
    (pid,) = await started(fleet, tmp_path)
    (running,) = (await fleet.view()).running
    await fleet.apply(FleetPlan(drain=(running.worker,)))
    clock.advance(9.0)
    assert [one.draining for one in (await fleet.view()).running] == [True]
    clock.advance(2.0)
    await fleet.view()
    until("it is dead", lambda: identity.started(pid) == "")
    view = await fleet.view()
    assert (view.running, view.deaths) == ((), ())


async def test_a_process_that_got_the_id_is_left_alone(make: MakeFleet, tmp_path: Path) -> None:
    """A stale record with another program's process id neither counts as a worker nor gets its signals."""
    innocent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])  # noqa: ASYNC220
    try:
        await asyncio.sleep(0.05)  # start times are told in ticks of 10 ms: the two must not share one
        fleet = make()
        await started(fleet, tmp_path)
        (record,) = records(tmp_path)
        path = tmp_path / "run" / "workers" / "stale.json"
        path.write_text(json.dumps({**record, "worker": "stale", "pid": innocent.pid}))
        await fleet.apply(FleetPlan(drain=(WorkerId("stale"),)))
        identity.kill_group(innocent.pid, str(record["start"]))
        assert "stale" not in {running.worker for running in (await fleet.view()).running}
        assert innocent.poll() is None
        assert not path.exists()
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"worker": "w"}'])
async def test_a_damaged_record_is_removed(make: MakeFleet, tmp_path: Path, text: str) -> None:
    """An unreadable record stops no start."""
    path = tmp_path / "run" / "workers" / "bad.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert (await make().view()).running == ()
    assert not path.exists()


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_controller_killed_within_a_start_leaves_no_unrecorded_process(
    tmp_path: Path, make: MakeFleet, *, is_recorded: bool
) -> None:
    """Killed before its record is written, or between the record and the word to go on: the worker never runs."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), "recorded" if is_recorded else ""], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    until("the child has ended", lambda: not identity.started(pid))
    assert not (tmp_path / "ran").exists()
    assert len(records(tmp_path)) == is_recorded
    assert asyncio.run(make().view()).running == ()
    assert records(tmp_path) == []


KILLED = """
import asyncio, os, pathlib, signal, sys
from penstock.connectors.process.fleet import HostConfig, LocalFleet
from penstock.connectors.process.records import Records
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.versions import FleetPlan

home, when = pathlib.Path(sys.argv[1]), sys.argv[2]
write = Records.write

def end(self, record):
    (home / "pid").write_text(str(record.pid))
    if when:
        write(self, record)
    os.kill(os.getpid(), signal.SIGKILL)

Records.write = end
runs = (sys.executable, "-c", f"import pathlib, time; pathlib.Path({str(home / 'ran')!r}).touch(); time.sleep(60)")
host = HostConfig(run=home / "run", logs=home / "logs", command=lambda *_: runs)
asyncio.run(LocalFleet(host, SystemClock()).apply(FleetPlan(start=("tiny@0",))))
"""
"""A controller that is killed while it starts a worker."""
