"""The end of the fleet, with real processes."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connectors.process import identity, leftovers
from penstock.connectors.process.records import ProcessRecord, Records
from penstock.domain.ids import VersionId, WorkerId

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Return a list of processes that are gone after the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        with process:
            process.kill()


def worker(run: Path, processes: list[subprocess.Popen[str]], name: str, program: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    record = ProcessRecord(
        worker=WorkerId(name),
        version=VersionId("m@0123456789ab"),
        pid=process.pid,
        start=identity.started(process.pid),
        started_at=time.time(),
    )
    Records(run / leftovers.FOLDER).write(record)
    return process


async def test_workers_end_by_themselves_or_are_killed(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    """One that obeys ends within the grace, one that does not is killed, and no record of either stays."""
    obedient = worker(tmp_path, processes, "obedient", SLEEPER)
    stubborn = worker(tmp_path, processes, "stubborn", STUBBORN)
    assert await leftovers.drain(tmp_path, 0.3) == 1
    codes = await asyncio.gather(*(asyncio.to_thread(process.wait, 5) for process in (obedient, stubborn)))
    assert codes == [-15, -9]
    assert await leftovers.drain(tmp_path, 0.3) == 0
    assert list(Records(tmp_path / leftovers.FOLDER).all()) == []


async def test_a_process_that_only_has_the_same_id_is_left_alone(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    """A record whose start time is another's never leads to a signal."""
    process = worker(tmp_path, processes, "other", SLEEPER)
    records = Records(tmp_path / leftovers.FOLDER)
    (record,) = records.all()
    records.write(
        ProcessRecord(
            worker=record.worker, version=record.version, pid=record.pid, start="another boot/1", started_at=0.0
        )
    )
    assert leftovers.living(tmp_path) == []
    assert await leftovers.drain(tmp_path, 0.2) == 0
    assert process.poll() is None
