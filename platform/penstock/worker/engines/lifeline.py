"""A pipe that keeps an engine alive: when its holder is gone, the kernel kills the engine's whole process group.

The engine asks for SIGKILL as the signal of asynchronous I/O on the pipe's read end, addressed to its group. Nobody
ever writes to the pipe, so the only event it can have is the end of its writer, however that ended. Unlike a parent
death signal it works for processes that are not our children, reaches the engine's own children, and needs no thread.
Linux only (``F_SETSIG``).
"""

import fcntl
import os
import select
import signal

F_SETSIG = 10
"""From ``fcntl(2)``; Python's ``fcntl`` module has no name for it."""


def make() -> tuple[int, int]:
    """Return the engine's end and the holder's end; neither is inherited unless passed on."""
    return os.pipe2(os.O_CLOEXEC)


def die_with(fd: int) -> None:
    """Bind the calling process group to the other end of ``fd``; the caller leads its group."""
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(fd, select.POLLHUP)
    if poll.poll(0):  # the holder was gone before we asked
        os.killpg(os.getpgrp(), signal.SIGKILL)
