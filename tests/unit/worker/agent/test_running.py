"""When an engine is given up: by its work while it starts, by its shut port afterwards; with real processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import pytest

from penstock.domain.ids import VersionId
from penstock.worker.agent import wire
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.health import Cause
from penstock.worker.agent.running import EngineLost, Hooks, RunIntervals, Running
from penstock.worker.engines.process import EngineProcess
from tests.support.clock import ManualClock
from tests.support.samples import control_plane as things

SPINS = "print(flush=True)\nwhile True: pass"
SLEEPS = "import time; print(flush=True); time.sleep(60)"
STILL_S = 10.0
HOOKS = Hooks(
    compiling=lambda: None, load=lambda *_: None, probed=lambda _: None, oom_kills=lambda: 0, learned=lambda _: None
)


class Gate:
    """An engine's gate that is not up; each question takes four seconds of virtual time, and the log may grow."""

    def __init__(self, clock: ManualClock, log: Path, lines: list[str]) -> None:
        self.clock, self.log, self.lines, self.asked = clock, log, lines, 0

    async def is_healthy(self) -> bool:
        self.clock.advance(4.0)
        self.asked += 1
        await asyncio.sleep(0.02)
        with self.log.open("a") as file:
            file.write(self.lines.pop(0) if self.lines else "")
        return False


@contextmanager
def process(program: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()
            yield running.pid
        finally:
            os.killpg(running.pid, signal.SIGKILL)


async def given_up(tmp_path: Path, clock: ManualClock, program: str, lines: list[str]) -> tuple[EngineLost, float]:
    """Return how a start was given up, and after how many seconds."""
    log = tmp_path / "engine.log"
    log.touch()
    gate = Gate(clock, log, lines)
    with process(program) as pid:
        engine = EngineProcess(pid, lambda: None, -1)
        pace = RunIntervals(start_still_s=STILL_S)
        running = Running(engine, cast("GateClient", gate), log, clock=clock, pace=pace)
        with pytest.raises(EngineLost, match="not up: no progress") as caught:
            await running.warm(things.version().manifest, HOOKS, lambda: None)
    return caught.value, 4.0 * gate.asked


async def test_an_engine_that_does_nothing_is_given_up_first(tmp_path: Path, clock: ManualClock) -> None:
    """A deadlock at the start is found; one that works has longer, and each line of its log begins anew."""
    still, still_s = await given_up(tmp_path, clock, SLEEPS, [])
    _, working_s = await given_up(tmp_path, clock, SPINS, [])
    _, telling_s = await given_up(tmp_path, clock, SPINS, ["loading\n"] * 20)
    assert still.cause is Cause.HANG
    assert STILL_S < still_s < 2 * STILL_S
    assert working_s >= 6 * STILL_S
    assert telling_s >= 20 * 4.0 + 6 * STILL_S


async def test_a_server_that_refuses_connections_is_lost_at_once(tmp_path: Path, clock: ManualClock) -> None:
    """It shut its port to end, and waits for a request that hangs: it took the time of a hung engine to be found."""
    log = tmp_path / "engine.log"
    log.touch()
    with closing(wire.reserve("127.0.0.1", 0)) as nobody, process(SLEEPS) as pid:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        gate = GateClient(url=url, version=VersionId("toy@1"), ticket_key=b"k" * 32, clock=clock)
        running = Running(EngineProcess(pid, lambda: None, -1), gate, log, clock=clock, pace=RunIntervals())
        lost = await running.watch(things.version().manifest, HOOKS)
    assert (lost.cause, lost.message) == (Cause.CRASH, "the engine's server accepts no connections")
