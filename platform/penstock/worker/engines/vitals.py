"""Activity of an engine's processes, read from ``/proc``: CPU time, runnable threads, a running compiler. Linux
only.

Time spent waiting for a core counts like time on it: on an overloaded machine an engine gets little CPU although it is
runnable.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

COMPILERS = frozenset(
    {"c++", "cc", "cc1", "cc1plus", "cicc", "clang", "clang++", "collect2", "g++", "gcc", "ld", "nvcc", "ptxas"}
)
"""Compiler programs of inductor and triton, as the kernel shortens their names."""

_PROC = Path("/proc")
_WANTS_A_CORE = frozenset("RD")
"""Thread states: on a core or waiting for one; waiting for a disk."""
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Seconds that processes ran on a core or waited for one since their start; whether any of them is runnable."""

    seconds: float = 0.0
    wants_core: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """One reading of an engine's processes. ``core`` is all processes but the first, or the first if it is alone.

    ``watcher`` is the reading process: if it gets no CPU itself, its readings say little about the others.
    """

    server: Activity
    core: Activity
    watcher: Activity
    compiles: bool


def read(leader: int) -> Vitals:
    server, others, compiles = _activity([leader]), [], False
    for pid in _descendants(leader):
        if _name(pid) in COMPILERS:
            compiles = True
        else:
            others.append(pid)
    core = _activity(others) if others else server
    return Vitals(server=server, core=core, watcher=_activity([os.getpid()]), compiles=compiles)


def _descendants(pid: int) -> Iterator[int]:
    for task in _tasks(pid):
        with suppress(OSError, ValueError):
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


def _activity(pids: list[int]) -> Activity:
    seconds, wants_core = 0.0, False
    for pid in pids:
        seconds += _ran_s(_PROC / str(pid))
        for task in _tasks(pid):
            seconds += _waited_s(task)
            wants_core = wants_core or _fields(task)[0] in _WANTS_A_CORE
    return Activity(seconds=seconds, wants_core=wants_core)


def _tasks(pid: int) -> list[Path]:
    with suppress(OSError):
        return list((_PROC / str(pid) / "task").iterdir())
    return []


def _name(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip()
    return ""


def _ran_s(process: Path) -> float:
    """Return a process's CPU seconds, those of ended threads included."""
    fields = _fields(process)
    return (int(fields[11]) + int(fields[12])) * _TICK_S if len(fields) > 12 else 0.0  # noqa: PLR2004 - proc(5)


def _waited_s(task: Path) -> float:
    """Return the seconds that a task waited for a core; 0 if the kernel does not count them."""
    with suppress(OSError, ValueError, IndexError):
        return int((task / "schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _fields(path: Path) -> list[str]:
    """Return the fields of ``stat`` from the state on; the process name before them may contain any character."""
    with suppress(OSError):
        return (path / "stat").read_text().rpartition(")")[2].split() or [""]
    return [""]


def oom_kills() -> int | None:
    """Return the kernel's number of OOM kills; None if it does not count them."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
