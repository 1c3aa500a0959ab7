"""Logs stay within their bounds, while a process writes and after it is gone; one rule for all of a home."""

import os
import subprocess
import sys
from pathlib import Path

from penstock.telemetry.log_files import ENGINE, LogBounds, is_alive, prune, rotate
from penstock.worker.agent.log_tail import LogTail

SMALL = LogBounds(most_bytes=100, pieces=2, gone=3)


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def test_a_log_within_its_bound_is_left_alone(tmp_path: Path) -> None:
    """Nothing is copied without need, and a log that isn't there is no error."""
    log = tmp_path / "engine-w.log"
    assert not rotate(log, SMALL)
    log.write_bytes(b"x" * 100)
    assert not rotate(log, SMALL)
    assert sizes(tmp_path) == {"engine-w.log": 100}


def test_a_grown_log_is_cut_and_some_pieces_are_kept(tmp_path: Path) -> None:
    """The newest pieces stay, the oldest goes, and a writer that holds the file goes on at its beginning."""
    log = tmp_path / "engine-w.log"
    with log.open("ab", buffering=0) as engine:
        for letter in (b"a", b"b", b"c"):
            engine.write(letter * 150)
            assert rotate(log, SMALL)
        engine.write(b"d")
    assert log.read_bytes() == b"d"
    assert (tmp_path / "engine-w.log.1").read_bytes() == b"c" * 150
    assert (tmp_path / "engine-w.log.2").read_bytes() == b"b" * 150
    assert len(sizes(tmp_path)) == 3


def test_a_full_disk_cuts_all_the_same(tmp_path: Path) -> None:
    """Where the copy can't be written the log is cut without one: it must not fill what is left."""
    log = tmp_path / "engine-w.log"
    log.write_bytes(b"x" * 150)
    (tmp_path / "engine-w.log.1").mkdir()
    rotate(log, LogBounds(most_bytes=100, pieces=1))
    assert log.stat().st_size == 0


def test_the_reader_follows_a_cut(tmp_path: Path) -> None:
    """Who reads what a log gains sees what comes after the cut."""
    log = tmp_path / "engine-w.log"
    log.write_bytes(b"")
    tail = LogTail(log, SMALL)
    with log.open("ab", buffering=0) as engine:
        engine.write(b"x" * 150 + b"\n")
        tail.trim()
        engine.write(b"ValueError: too small\n")
    assert tail.reason() == "ValueError: too small"
    assert log.stat().st_size < 100


def test_only_the_newest_logs_of_gone_engines_are_kept(tmp_path: Path) -> None:
    """Logs of living engines stay however old; of the others the oldest go, with all their pieces."""
    logs, engines = tmp_path / "logs", tmp_path / "engines"
    logs.mkdir()
    engines.mkdir()
    for age, worker in enumerate(("old", "alive", "w1", "w2", "w3", "stale")):
        log = logs / f"engine-{worker}.log"
        for path in (log, log.with_name(f"{log.name}.1")):
            path.write_bytes(b"x")
            os.utime(path, (age, age))
    (logs / "gateway.log").write_bytes(b"x")
    (engines / "alive.pid").write_text(str(os.getpid()))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (engines / "stale.pid").write_text(str(ended.pid))
    prune(logs, ENGINE, lambda worker: is_alive(engines / f"{worker}.pid"), SMALL)
    left = {path.name for path in logs.glob("engine-*.log")}
    assert left == {"engine-alive.log", "engine-w2.log", "engine-w3.log", "engine-stale.log"}
    assert not (logs / "engine-w1.log.1").exists()
    assert (logs / "gateway.log").exists()
