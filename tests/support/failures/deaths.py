"""Ways for a worker to die, and the wait until another one has taken its place."""

import os
import signal
from collections.abc import Callable

import psutil

from tests.support.patience import until
from tests.support.platforms.readings import Fleet, Gate

Kill = Callable[[Gate], None]
BACK_WITHIN_S = 60.0


def engine_dies(gate: Gate) -> None:
    os.kill(gate.engine_pid, signal.SIGKILL)


def core_dies(gate: Gate) -> None:
    """Kill what the kernel would kill for want of memory: the largest process of the engine."""
    family = [psutil.Process(gate.engine_pid), *psutil.Process(gate.engine_pid).children(recursive=True)]
    max(family, key=lambda process: process.memory_info().rss).kill()


def agent_dies(gate: Gate) -> None:
    """Kill the worker's agent; its engine goes with it."""
    os.kill(gate.agent_pid, signal.SIGKILL)


def engine_freezes(gate: Gate) -> None:
    os.killpg(os.getpgid(gate.engine_pid), signal.SIGSTOP)


def the_busy_one(fleet: Fleet) -> Gate:
    """Return the one worker that holds a request."""
    until("a worker has the request", lambda: len(fleet.busy()) == 1, within_s=10, every_s=0.005)
    return fleet.busy()[0]


def until_whole_again(fleet: Fleet, lost: Gate) -> None:
    """Wait until two workers serve, and the lost engine's process is another one or gone."""
    until(
        "another engine has taken the place",
        lambda: len(fleet.ready()) == 2 and all(gate.engine_pid != lost.engine_pid for gate in fleet.gates()),
        within_s=BACK_WITHIN_S,
        every_s=0.1,
    )
    fleet.until_ready(2, within_s=BACK_WITHIN_S)
