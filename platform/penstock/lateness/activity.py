"""Activity of other processes, read from ``/proc``: CPU time, runnable threads, stopped ones. Linux only.

Time spent waiting for a core counts like time on it: on a starved machine a process gets little CPU although it wants
to run.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_WANTS_A_CORE = frozenset("RD")
"""States of a thread: on a core or waiting for one; waiting for a disk."""
_STOPPED = frozenset("Tt")
"""States of a process that a signal or a debugger has stopped (proc(5))."""
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Seconds that processes ran on a core or waited for one since their start; whether any of them is runnable."""

    seconds: float = 0.0
    wants_core: bool = False

    def is_busy(self, before: "Activity", elapsed_s: float, part: float) -> bool:
        """Tell whether the processes took or waited for this part of one core since the reading before."""
        return self.seconds - before.seconds >= part * elapsed_s


def of(pids: Iterable[int]) -> Activity:
    seconds, wants_core = 0.0, False
    for pid in pids:
        seconds += ran_s(pid)
        for task in tasks(pid):
            seconds += _waited_s(task)
            wants_core = wants_core or _fields(task)[0] in _WANTS_A_CORE
    return Activity(seconds=seconds, wants_core=wants_core)


def is_stopped(pid: int) -> bool:
    return _fields(PROC / str(pid))[0] in _STOPPED


def ran_s(pid: int) -> float:
    """Return a process's CPU seconds, those of ended threads included; 0 after its end."""
    fields = _fields(PROC / str(pid))
    return (int(fields[11]) + int(fields[12])) * _TICK_S if len(fields) > 12 else 0.0  # noqa: PLR2004 - proc(5)


def tasks(pid: int) -> list[Path]:
    with suppress(OSError):
        return list((PROC / str(pid) / "task").iterdir())
    return []


def _waited_s(task: Path) -> float:
    with suppress(OSError, ValueError, IndexError):
        return int((task / "schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _fields(path: Path) -> list[str]:
    """Return the fields of ``stat`` from the state on; the process name before it may hold any character."""
    with suppress(OSError):
        return (path / "stat").read_text().rpartition(")")[2].split() or [""]
    return [""]
