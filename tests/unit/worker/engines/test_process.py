"""Lifelines and engine processes, on small real ones."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.worker.engines import lifeline
from penstock.worker.engines.lifeline import short
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.process import CannotFork, EngineFiles, EngineProcess, Forking
from penstock.worker.gate_config import GateConfig

pytestmark = pytest.mark.integration

BOUND = """
import os, signal, sys, time
from penstock.worker.engines import lifeline
lifeline.die_with(int(sys.argv[1]))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    time.sleep(60)
print("bound", flush=True)
time.sleep(60)
"""


def bound() -> tuple[subprocess.Popen[bytes], int]:
    """Start a process group that is bound to a lifeline; return it and our end."""
    end, hold = lifeline.make()
    process = subprocess.Popen(
        [sys.executable, "-c", BOUND, str(end)], pass_fds=[end], start_new_session=True, stdout=subprocess.PIPE
    )
    os.close(end)
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == b"bound\n"
    return process, hold


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def members(leader: int) -> list[str]:
    stats = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return [stat[0] for stat in stats if stat[2] == str(leader) and stat[0] != "Z"]


def test_a_frozen_group_dies_with_its_lifeline() -> None:
    """When the holder's end is gone, the kernel kills the whole group, although its leader is stopped."""
    process, hold = bound()
    os.kill(process.pid, signal.SIGSTOP)
    assert process.poll() is None
    os.close(hold)
    assert process.wait(5) == -signal.SIGKILL
    deadline = time.monotonic() + 2
    while members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert members(process.pid) == []


def test_a_lifeline_that_is_cut_already_kills_at_once() -> None:
    """A process that asks too late dies too."""
    end, hold = lifeline.make()
    os.close(hold)
    process = subprocess.Popen([sys.executable, "-c", BOUND, str(end)], pass_fds=[end], start_new_session=True)
    os.close(end)
    assert process.wait(10) == -signal.SIGKILL


async def test_a_process_that_ends_is_noticed_with_its_code() -> None:
    """The end of an engine comes with its exit code, and closing it twice changes nothing."""
    process, hold = bound()
    engine = EngineProcess(process.pid, process.wait, hold)
    process.kill()
    assert await engine.wait() == -signal.SIGKILL
    await engine.end()
    assert members(process.pid) == []


async def test_stopping_insists_when_asking_does_not_help() -> None:
    """A process that ignores SIGTERM is killed after the grace."""
    process, hold = bound()
    engine = EngineProcess(process.pid, process.wait, hold)
    assert await engine.stop(0.1) == -signal.SIGKILL


@pytest.mark.parametrize(("is_dead", "within_s"), [(False, 0.5), (True, 0.1)], ids=["not there yet", "dead"])
async def test_a_parent_that_is_not_there_refuses(tmp_path: Path, is_dead: bool, within_s: float) -> None:
    """Forking gives up in time, at once where the parent has died, and leaves no file descriptor open."""
    if is_dead:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, short(tmp_path / "nobody") as address:
            listener.bind(address)
            listener.listen()
    open_before = open_files()
    forking = Forking(address=tmp_path / "nobody", own=False, log=tmp_path / "log", patience_s=0.2)
    gate = GateConfig(worker="w", version="v", ticket_key="", max_num_seqs=1)  # type: ignore[arg-type]
    launch = LaunchPlan(argv=(), environment=(), gate=gate)
    began = time.monotonic()
    with pytest.raises(CannotFork):
        await forking.start(launch, EngineFiles(plan=tmp_path / "p", log=tmp_path / "l", pid=tmp_path / "i"))
    assert time.monotonic() - began < within_s
    assert open_files() == open_before


def test_addresses_may_be_longer_than_the_kernel_takes(tmp_path: Path) -> None:
    """A socket below a very long path can be bound and reached."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with short(folder / "s") as address:
            server.bind(address)
        server.listen()
        with short(folder / "s") as address:
            client.connect(address)
        assert select.select([server], [], [], 1)[0]
