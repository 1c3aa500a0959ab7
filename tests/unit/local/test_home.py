"""`penstock up` keeps every log of its home within bounds, not only those of engines."""

import os
from pathlib import Path

import pytest

from penstock.connectors.process import identity
from penstock.connectors.process.records import ProcessRecord, Records
from penstock.domain.ids import VersionId, WorkerId
from penstock.local import state
from penstock.local.home import bound_logs
from penstock.settings.told import Home
from penstock.supervision.lock import HomeLock
from penstock.telemetry.log_files import LogBounds

SMALL = LogBounds(most_bytes=100, pieces=2, gone=1)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home with a folder for logs."""
    paths = Home(tmp_path)
    paths.logs.mkdir()
    return paths


@pytest.mark.parametrize("name", ["gateway-1", "gateway-2", "controller", "postgres", "prometheus", "worker-a-1"])
def test_any_log_that_has_grown_is_cut(home: Home, name: str) -> None:
    """A gateway's log of requests had no bound and filled the disk; whoever wrote a log, it is cut like an engine's."""
    log = home.logs / f"{name}.log"
    log.write_bytes(b"x" * 150)
    bound_logs(home, SMALL)
    assert log.stat().st_size == 0
    assert log.with_name(f"{log.name}.1").stat().st_size == 150


def test_an_engines_log_is_left_to_its_agent(home: Home) -> None:
    """The agent reads its end before it cuts it: two that cut one log would lose the reason of a death."""
    log = home.logs / "engine-a-1.log"
    log.write_bytes(b"x" * 150)
    bound_logs(home, SMALL)
    assert log.stat().st_size == 150


def test_of_gone_workers_the_newest_logs_stay(home: Home) -> None:
    """A worker that crashes again and again leaves no log for each of its lives; a living one's stays however old."""
    for age, worker in enumerate(("alive", "first", "second")):
        log = home.logs / f"worker-{worker}.log"
        log.write_bytes(b"x")
        os.utime(log, (age, age))
    pid = os.getpid()
    record = ProcessRecord(
        worker=WorkerId("alive"), version=VersionId("a@1"), pid=pid, start=identity.started(pid), started_at=0.0
    )
    Records(home.run / "workers").write(record)
    bound_logs(home, SMALL)
    assert {path.name for path in home.logs.iterdir()} == {"worker-alive.log", "worker-second.log"}


def test_a_platform_that_runs_says_that_its_settings_are_older(home: Home) -> None:
    """A changed file is noted while a platform runs that read it before, and only then."""
    run, file = home.root / "run", home.settings_file
    file.write_text("webhook_networks: 127.0.0.0/8\n")
    with HomeLock(run):
        began = (run / "up.lock").stat().st_mtime
        os.utime(file, (began - 1, began - 1))
        assert state.unread_settings(run, file) == ""
        os.utime(file, (began + 1, began + 1))
        assert "`penstock down` and `penstock up`" in state.unread_settings(run, file)
    assert state.unread_settings(run, file) == ""
