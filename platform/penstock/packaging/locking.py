"""A file lock between processes that names its holder; the kernel releases it at the holder's death.

A waiting process can be interrupted, and gives up in time.
"""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.domain.command_error import CommandError
from penstock.packaging.ports import Report

PATIENCE_S = 900.0
"""Seconds for a download and a conversion on a slow machine."""
LOOK_EVERY_S = 0.1


@asynccontextmanager
async def locked(path: Path, report: Report, within_s: float = PATIENCE_S) -> AsyncIterator[None]:
    """Raises ``CommandError`` if another process holds the lock longer."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _is_taken(fd):
            report(f"waiting for process {_holder(fd)}, which prepares the same")
            await _wait(fd, path, within_s)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


async def _wait(fd: int, path: Path, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            while not _is_taken(fd):  # noqa: ASYNC110  a lock of another process tells nobody
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise CommandError(
            f"Process {_holder(fd)} has held {path} for more than {within_s:g} s.",
            do="See what it does; if it hangs, end it, which releases the lock.",
        ) from None


def _is_taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(fd: int) -> str:
    return os.pread(fd, 32, 0).decode().strip() or "unknown"
