"""Activity of an engine's processes, and a running compiler, read from ``/proc``. Linux only."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.lateness import activity
from penstock.lateness.activity import Activity

COMPILERS = frozenset(
    {"c++", "cc", "cc1", "cc1plus", "cicc", "clang", "clang++", "collect2", "g++", "gcc", "ld", "nvcc", "ptxas"}
)
"""Programs that inductor and triton run, by the name that the kernel keeps of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """``core`` is all processes but the first (the server), or the only one. ``watcher`` is the reading process itself:
    if it lacked CPU, its readings say little about the others.
    """

    server: Activity
    core: Activity
    watcher: Activity
    compiles: bool


def read(leader: int) -> Vitals:
    server, others, compiles = activity.of([leader]), [], False
    for pid in _descendants(leader):
        if _name(pid) in COMPILERS:
            compiles = True
        else:
            others.append(pid)
    core = activity.of(others) if others else server
    return Vitals(server=server, core=core, watcher=activity.of([os.getpid()]), compiles=compiles)


def _descendants(pid: int) -> Iterator[int]:
    for task in activity.tasks(pid):
        with suppress(OSError, ValueError):
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _descendants(int(child))


def _name(pid: int) -> str:
    with suppress(OSError):
        return (activity.PROC / str(pid) / "comm").read_text().strip()
    return ""


def oom_kills() -> int | None:
    """Return the kills since boot; None if the kernel does not count them."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
