"""Bounds logs on disk: the size of each with some older pieces, and the number of logs of ended processes.

Processes append to a file opened at their start. A log above its bound is copied and truncated, and the process keeps
writing to it. Trade-off: lines between copy and truncation are lost.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ENGINE = "engine-"
"""The prefix of engine logs; the agent truncates them, because it reads their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """``pieces`` older parts of ``most_bytes`` are kept per log, and the logs of ``gone`` ended processes per kind."""

    most_bytes: int = 16 << 20
    pieces: int = 2
    gone: int = 20


def rotate(log: Path, bounds: LogBounds) -> bool:
    """Copy and truncate a log above its bound; never raises ``OSError``."""
    with suppress(OSError):
        if log.stat().st_size <= bounds.most_bytes:
            return False
        try:
            for number in range(bounds.pieces - 1, 0, -1):
                with suppress(FileNotFoundError):
                    _piece(log, number).replace(_piece(log, number + 1))
            shutil.copyfile(log, _piece(log, 1))
        finally:  # also where the disk is full: all the more
            os.truncate(log, 0)
        return True
    return False


def prune(logs: Path, kind: str, lives: Callable[[str], bool], bounds: LogBounds) -> None:
    found = [path for path in logs.glob(f"{kind}*.log") if not lives(path.stem.removeprefix(kind))]
    with suppress(FileNotFoundError):
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for log in found[bounds.gone :]:
        for path in (log, *(_piece(log, number) for number in range(1, bounds.pieces + 1))):
            path.unlink(missing_ok=True)


def is_alive(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def _piece(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
