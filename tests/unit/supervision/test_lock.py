"""One platform per home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.domain.command_error import CommandError
from penstock.supervision.lock import FILE, HomeLock, holder, holders

HOLD = """
import sys, time, pathlib
from penstock.supervision.lock import HomeLock
with HomeLock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_platform_is_told_who_holds_the_home(tmp_path: Path) -> None:
    """The second lock names the process of the first and both settings that would let it run."""
    with HomeLock(tmp_path / "run"), pytest.raises(CommandError) as caught, HomeLock(tmp_path / "run"):
        pass
    assert str(os.getpid()) in caught.value.what
    assert "PENSTOCK_HOME" in caught.value.do
    assert "PENSTOCK_PORT" in caught.value.do


def test_the_holder_is_known_while_it_holds(tmp_path: Path) -> None:
    """The process id can be read while the lock is held and is 0 before and after."""
    assert holder(tmp_path) == 0
    with HomeLock(tmp_path):
        assert holder(tmp_path) == os.getpid()
    assert holder(tmp_path) == 0


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    """After kill -9 of the holder the home is free, whatever the file says."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert holder(tmp_path) == process.pid
        process.kill()
    assert holder(tmp_path) == 0
    with HomeLock(tmp_path):
        assert holder(tmp_path) == os.getpid()


def test_the_kernel_knows_who_holds_a_file(tmp_path: Path) -> None:
    """Whatever a file says, its holder is named while it holds, and nobody after that."""
    with HomeLock(tmp_path):
        assert holders(tmp_path / FILE) == f"process {os.getpid()}"
    assert holders(tmp_path / FILE) == "a process that can't be seen from here"
