"""Keeping a process running, with real processes."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import penstock.supervision.supervisor
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local.services import is_not_stopped
from penstock.supervision.child import Child, Command
from penstock.supervision.restarts import Cause, Restart, RestartPolicy
from penstock.supervision.supervisor import ChildSpec, Supervisor

SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
WORKS_A_WHILE = """
import time
while time.process_time() < 0.6: pass
print('up', flush=True)
time.sleep(60)
"""
SPINS = "while True: pass"
BROKEN = "print('the disk is full'); raise SystemExit(3)"
Make = Callable[..., Supervisor]


async def printed(child: Child) -> bool:
    return child.command.log.exists() and bool(child.command.log.read_text())


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Return a maker of supervisors whose processes are gone after the test."""
    supervisors: list[Supervisor] = []

    def _make(
        program: str,
        *,
        ready: Callable[[Child], Awaitable[bool]] = printed,
        said: list[str] | None = None,
        ready_within_s: float = 5.0,
    ) -> Supervisor:
        spec = ChildSpec(
            command=lambda: Command(
                name="sleeper",
                argv=(sys.executable, "-c", program),
                log=tmp_path / "sleeper.log",
                environment=dict(os.environ),
            ),
            ready=ready,
            clock=SystemClock(),
            report=(said if said is not None else []).append,
            policy=RestartPolicy(first_wait_s=0.01, max_wait_s=0.02, max_deaths=3),
            ready_within_s=ready_within_s,
        )
        supervisors.append(Supervisor(spec))
        return supervisors[-1]

    yield _make
    for supervisor in supervisors:
        with suppress(AssertionError):
            supervisor.kill()
            await supervisor.child.wait()


async def other_than(supervisor: Supervisor, pid: int) -> int:
    for _ in range(500):
        if supervisor.child.pid != pid:
            break
        await asyncio.sleep(0.01)
    return supervisor.child.pid


async def test_a_killed_process_comes_back(make: Make) -> None:
    """After kill -9 there is a new process, and the screen was told why."""
    said: list[str] = []
    supervisor = make(SLEEPER, said=said)
    await supervisor.start()
    watching = asyncio.create_task(supervisor.watch())
    first = supervisor.child.pid
    os.kill(first, signal.SIGKILL)
    assert await other_than(supervisor, first) != first
    assert "SIGKILL" in said[0]
    await supervisor.stop(5.0)
    await asyncio.wait_for(watching, 5)


async def test_a_crash_loop_ends_in_trouble_that_names_the_log(make: Make) -> None:
    """A process that always dies is given up with its exit code and its log."""
    supervisor = make(BROKEN)
    await supervisor.start()
    with pytest.raises(CommandError, match=r"keeps dying .*code 3") as caught:
        await asyncio.wait_for(supervisor.watch(), 10)
    assert caught.value.log is not None
    assert "the disk is full" in caught.value.log.read_text().splitlines()


async def test_a_process_that_dies_while_starting_is_trouble(make: Make) -> None:
    """Death before readiness is reported as such, without waiting for the time limit."""

    async def never(_: Child) -> bool:
        return False

    with pytest.raises(CommandError, match="ended with code 3 while starting"):
        await asyncio.wait_for(make(BROKEN, ready=never).start(), 4)


@contextmanager
def spinning(processes: int) -> Iterator[None]:
    """Keep this many processes busy."""
    running = [subprocess.Popen([sys.executable, "-c", SPINS]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


async def test_a_busy_machine_delays_a_start_and_ends_none(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside six busy processes a start takes longer than an idle process is given, and is waited for."""
    monkeypatch.setattr(penstock.supervision.supervisor, "WORKING_STARTS", 200.0)
    supervisor = make(WORKS_A_WHILE, ready_within_s=0.5)
    with spinning(6):
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(supervisor.start(), 100)
    assert asyncio.get_running_loop().time() - began > 2 * 0.5


@pytest.mark.parametrize(("program", "works"), [("import time; time.sleep(60)", False), (SPINS, True)])
async def test_a_start_that_does_nothing_or_never_ends_is_given_up(
    make: Make, monkeypatch: pytest.MonkeyPatch, program: str, *, works: bool
) -> None:
    """One that does nothing is given up soon, one that works without end later."""
    monkeypatch.setattr(penstock.supervision.supervisor, "WORKING_STARTS", 2.0)
    supervisor = make(program, ready_within_s=1.5)
    with pytest.raises(CommandError, match="not ready after") as caught:
        await asyncio.wait_for(supervisor.start(), 60)
    busy_s, idle_s = map(int, re.findall(r"(\d+) s", caught.value.what))
    assert (busy_s >= 2.0 * 1.5) is works
    assert works or idle_s >= 1
    assert await supervisor.child.wait() == -signal.SIGKILL


async def test_replace_starts_the_successor_before_the_old_one_ends(make: Make) -> None:
    """The old process lives until the new one is ready."""
    alive: list[bool] = []
    supervisor = make(SLEEPER)

    async def ready(child: Child) -> bool:
        if (old := supervisor._child) is not None and old is not child:
            alive.append(old.code is None)
        return await printed(child)

    object.__setattr__(supervisor._spec, "ready", ready)
    await supervisor.start()
    first = supervisor.child
    await supervisor.replace(5.0)
    assert alive
    assert all(alive)
    assert first.code is not None
    assert supervisor.child.code is None


async def test_a_successor_that_fails_leaves_the_old_one_in_place(make: Make, tmp_path: Path) -> None:
    """A rolling restart into a broken program changes nothing."""
    program = f"import pathlib\nif pathlib.Path({str(tmp_path / 'broken')!r}).exists(): raise SystemExit(3)\n{SLEEPER}"

    async def ready(child: Child) -> bool:
        return not (tmp_path / "broken").exists() and await printed(child)

    supervisor = make(program, ready=ready)
    await supervisor.start()
    (tmp_path / "broken").touch()
    first = supervisor.child
    with pytest.raises(CommandError):
        await supervisor.replace(5.0)
    assert supervisor.child is first
    assert first.code is None


async def test_a_process_that_ignores_the_request_to_end_is_killed(make: Make) -> None:
    """SIGTERM first; SIGKILL when the grace is over."""
    supervisor = make(STUBBORN)
    await supervisor.start()
    await supervisor.stop(0.2)
    assert supervisor.child.code == -signal.SIGKILL


async def test_a_stopped_process_is_killed_and_comes_back(make: Make) -> None:
    """After kill -STOP its questions get no answer: it is killed, replaced, and the cause is told as a hang."""
    said: list[str] = []
    restarts: list[Restart] = []
    supervisor = make(SLEEPER, said=said)

    changes = {"ask": is_not_stopped, "ask_every_s": 0.05, "ask_within_s": 0.5, "restarted": restarts.append}
    for name, value in changes.items():
        object.__setattr__(supervisor._spec, name, value)
    await supervisor.start()
    watching = asyncio.create_task(supervisor.watch())
    first = supervisor.child.pid
    os.kill(first, signal.SIGSTOP)
    for _ in range(1000):
        if restarts:
            break
        await asyncio.sleep(0.01)
    assert await other_than(supervisor, first) != first
    assert [(one.process, one.cause) for one in restarts] == [("sleeper", Cause.HUNG)]
    assert "did not answer for" in said[0]
    await supervisor.stop(5.0)
    await asyncio.wait_for(watching, 5)
