"""One ``penstock up`` per home: an advisory lock, which the kernel releases when its holder dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.domain.command_error import CommandError
from penstock.supervision.files import unwritable

FILE = "up.lock"


class HomeLock:
    """Held while a platform runs here; the file has the holder's process id."""

    def __init__(self, run: Path) -> None:
        self._path = run / FILE
        self._fd = -1

    def __enter__(self) -> Self:
        """Raises ``CommandError`` that names the holder or the fault."""
        home = self._path.parent.parent
        try:
            self._take()
        except BlockingIOError:
            self._close()
            raise CommandError(
                f"A platform already runs in {home} (process {holder(self._path.parent) or 'unknown'}).",
                do="Stop it with `penstock down`, or set PENSTOCK_HOME and PENSTOCK_PORT to run another beside it.",
            ) from None
        except OSError as error:
            self._close()
            raise unwritable(home, error) from error
        return self

    def _take(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The file stays, since removing it would race with the next holder."""
        os.ftruncate(self._fd, 0)
        self._close()


def holder(run: Path) -> int:
    try:
        fd = os.open(run / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.pread(fd, 32, 0).decode().strip() or 0)
    finally:
        os.close(fd)
    return 0


@contextmanager
def held(file: Path, *, shared: bool) -> Iterator[None]:
    """Exclusively or shared; ``BlockingIOError`` if another process holds the lock."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def holders(file: Path) -> str:
    """Processes of this container that hold a lock on a file (proc(5))."""
    number = f":{file.stat().st_ino}"
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    pids = sorted({line[4] for line in lines if line[1] == "FLOCK" and line[5].endswith(number)}, key=int)
    return f"process {', '.join(pids)}" if pids else "a process that can't be seen from here"
