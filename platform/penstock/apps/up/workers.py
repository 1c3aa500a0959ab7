"""The fleet as the supervisor needs it: how the workers come up, and their end. Starting them is the controller's job.

Their records in ``run/workers/`` name process and start time, so a process id that became somebody else's is let alone.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

FOLDER = "workers"
POLL_S = 0.1


def processes(run: Path) -> list[psutil.Process]:
    """Return the living worker processes of this home."""
    return [process for path in sorted((run / FOLDER).glob("*.json")) for process in _process_of(path)]


def _process_of(record: Path) -> Iterator[psutil.Process]:
    with suppress(OSError, ValueError, psutil.Error):
        found = json.loads(record.read_text())
        process = psutil.Process(int(found["pid"]))
        if process.status() != psutil.STATUS_ZOMBIE and "worker" in process.cmdline():
            yield process


async def drain(run: Path, grace_s: float) -> int:
    """Ask all workers to drain and end, kill those that don't; return how many were killed."""
    alive = processes(run)
    _each(alive, "terminate")
    for _ in range(int(grace_s / POLL_S) + 1):
        alive = [process for process in alive if _lives(process)]
        if not alive:
            break
        await asyncio.sleep(POLL_S)
    kill(alive)
    return len(alive)


def kill(alive: Sequence[psutil.Process]) -> None:
    """End these workers and their engines at once."""
    families = [*alive, *(child for process in alive for child in _children(process))]
    _each(families, "kill")


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return list(process.children(recursive=True))
    return []


def _each(processes_: Sequence[psutil.Process], act: str) -> None:
    for process in processes_:
        with suppress(psutil.Error):
            getattr(process, act)()


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
