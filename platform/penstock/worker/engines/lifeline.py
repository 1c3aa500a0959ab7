"""A pipe that ties an engine to its agent: when the agent dies, the kernel kills the engine's process group.

The engine registers SIGKILL for its group as the asynchronous I/O signal of the pipe's read end, whose only event is
that the writer closes it. Unlike a parent-death signal it works for adopted processes, includes the engine's children,
and needs no thread.
"""

import fcntl
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def short(path: Path) -> Iterator[str]:
    """Yield an address of at most 108 bytes for a Unix socket, relative to an open folder."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


F_SETSIG = 10
"""From ``fcntl(2)``; Python's ``fcntl`` module has no name for it."""


def make() -> tuple[int, int]:
    """Ends for the engine and its holder; no child inherits either unless it is passed on."""
    return os.pipe2(os.O_CLOEXEC)


def die_with(fd: int) -> None:
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(fd, select.POLLHUP)
    if poll.poll(0):  # the holder was gone before we asked
        os.killpg(os.getpgrp(), signal.SIGKILL)
