"""What real processes are seen doing."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.lateness.activity import Activity
from penstock.worker.agent.watchdog import Doing, doing
from penstock.worker.engines import vitals
from penstock.worker.engines.vitals import Vitals
from tests.support.patience import until

SLEEPS = "import time; print(flush=True); time.sleep(60)"
SPINS = "print(flush=True)\nwhile True: pass"
WAITS_FOR_SPINNING = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPINS!r}])"


@contextmanager
def running(program: str) -> Iterator[int]:
    """Yield the id of a process that runs this and has printed a line."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def did(pid: int, *, answers: bool) -> Doing:
    """Look twice, a fifth of a second of our own work apart: whoever wants to work has had its chance by then."""
    before, began = others(pid), time.monotonic()
    worked_s = time.process_time()
    while time.process_time() - worked_s < 0.2:
        pass
    return doing(before, others(pid), time.monotonic() - began, answers=answers)


def others(pid: int) -> Vitals:
    """Return a reading of somebody who has a core whenever he wants."""
    return replace(vitals.read(pid), watcher=Activity())


@pytest.mark.parametrize(("program", "expected"), [(SLEEPS, Doing.NOTHING), (SPINS, Doing.WORKING)])
def test_a_process_alone_is_server_and_core(program: str, expected: Doing) -> None:
    """One that sleeps does nothing, one that computes works, whoever is asked for."""
    with running(program) as pid:
        assert {did(pid, answers=True), did(pid, answers=False)} == {expected}


def test_a_frozen_process_does_nothing() -> None:
    """A busy process that is stopped is seen to do nothing from then on."""
    with running(SPINS) as pid:
        os.kill(pid, signal.SIGSTOP)
        until("it is stopped", lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        assert did(pid, answers=True) is Doing.NOTHING


def test_server_and_core_are_told_apart() -> None:
    """A busy child is the core; its parent, which waits for it, does nothing."""
    with running(WAITS_FOR_SPINNING) as pid:
        assert (did(pid, answers=True), did(pid, answers=False)) == (Doing.WORKING, Doing.NOTHING)


def test_a_compiler_among_its_processes_is_seen(tmp_path: Path) -> None:
    """A descendant with a compiler's name means compiling, though it may wait for its disk."""
    compiler = str(shutil.copy("/bin/sleep", tmp_path / "cc1plus"))
    with running(f"import subprocess; p = subprocess.Popen([{compiler!r}, '60']); print(flush=True); p.wait()") as pid:
        assert did(pid, answers=True) is Doing.COMPILING


def test_who_looks_is_seen_too() -> None:
    """What we ourselves took of the cores is in the reading."""
    with running(SLEEPS) as pid:
        before, worked_s = vitals.read(pid).watcher, time.process_time()
        while time.process_time() - worked_s < 0.1:
            pass
        assert vitals.read(pid).watcher.seconds - before.seconds >= 0.08


def test_processes_that_are_gone_do_nothing() -> None:
    """An engine that ends while it is looked at is no error."""
    with running(SLEEPS) as pid:
        pass
    seen = vitals.read(pid)
    assert (seen.server, seen.core, seen.compiles) == (Activity(), Activity(), False)
