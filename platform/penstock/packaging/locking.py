"""A lock between processes, in a file: the kernel gives it back however its holder ends."""

import fcntl
import os
from contextlib import closing
from pathlib import Path


class _Held:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def close(self) -> None:
        os.close(self._fd)


def locked(path: Path) -> closing[_Held]:
    """Wait for the lock; leaving the returned context gives it back."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return closing(_Held(fd))
