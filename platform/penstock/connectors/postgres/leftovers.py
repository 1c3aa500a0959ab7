"""Cleans up after a killed server: stale lock files and orphaned children.

Postgres trusts the process id in its lock files, which after a reboot may belong to any process. Its own processes work
*in* the data folder: their current folder identifies them.
"""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from penstock.domain.errors import StoreUnavailable

_ORPHANS_END_WITHIN_S = 10.0
_POLL_S = 0.05


def postmaster(data: Path) -> int:
    try:
        pid = int((data / "postmaster.pid").read_text().partition("\n")[0])
    except (OSError, ValueError):
        return 0
    return pid if _works_in(pid, data) else 0


def kill(data: Path) -> None:
    for pid in _processes():
        if _works_in(pid, data):
            _kill(pid)


def clear(data: Path, locks: Iterable[Path]) -> None:
    """Remove a dead postmaster's files; a running server is not touched."""
    if postmaster(data):
        return
    _end_orphans(data)
    for lock in locks:
        lock.unlink(missing_ok=True)


def _end_orphans(data: Path) -> None:
    for attempt in range(int(_ORPHANS_END_WITHIN_S / _POLL_S)):
        orphans = [pid for pid in _processes() if _works_in(pid, data)]
        if not orphans:
            return
        if attempt * _POLL_S > _ORPHANS_END_WITHIN_S / 2:
            for pid in orphans:
                _kill(pid)
        time.sleep(_POLL_S)
    raise StoreUnavailable("processes of a dead Postgres still hold its data folder")


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _works_in(pid: int, data: Path) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/cwd").resolve(strict=True) == data
            and Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
            and not _is_zombie(pid)
        )
    except OSError:
        return False


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
