"""Objects in a folder of the home: private files, spread over 256 folders, each written, synced, then linked.

A draft has a name of its own until its last byte is on the disk; nothing is ever overwritten.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.jobs.errors import PayloadGone, StorageFull
from penstock.files.whole import sync_folder

RETRY_S = 60.0
"""Seconds until a refused writer may find room: retention frees some each minute."""
GROUP = 1000
_DRAFT = "."
_SLASH = "+"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class FolderObjects:
    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, name: str) -> "_Draft":
        place = self._place(name)
        with _explained():
            for folder in (self._root, place.parent):
                if not folder.is_dir():
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    sync_folder(folder.parent)
            return _Draft(self._root, place)

    def size(self, name: str) -> int:
        with _explained():
            return self._place(name).stat().st_size

    def read(self, name: str, start: int, length: int) -> bytes:
        with _explained(), self._place(name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def delete(self, name: str) -> None:
        with _explained():
            self._place(name).unlink(missing_ok=True)

    def names(self, before: float) -> Iterator[list[str]]:
        group: list[str] = []
        for path in self._older(before):
            if not path.name.startswith(_DRAFT):
                group.append(path.name.replace(_SLASH, "/"))
            if len(group) == GROUP:
                yield group
                group = []
        yield group

    def sweep(self, before: float) -> int:
        found = [path for path in self._older(before) if path.name.startswith(_DRAFT)]
        with _explained():
            for path in found:
                path.unlink(missing_ok=True)
        return len(found)

    def _older(self, before: float) -> Iterator[Path]:
        with _explained():
            for folder in sorted(self._root.iterdir()) if self._root.is_dir() else ():
                for entry in os.scandir(folder):
                    if _written_at(entry) < before:
                        yield Path(entry.path)

    def _place(self, name: str) -> Path:
        part = hashlib.sha256(name.encode()).hexdigest()[:2]
        return self._root / part / name.replace("/", _SLASH)


class _Draft:
    def __init__(self, root: Path, place: Path) -> None:
        self._root, self._place = root, place
        self._path = place.with_name(f"{_DRAFT}{uuid4().hex}")
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        with _explained():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def commit(self) -> None:
        with _explained():
            os.fsync(self._fd)
            try:
                os.link(self._path, self._place)
            except FileExistsError as error:
                raise Conflict("this object is written already") from error
            self._path.unlink()
            self._close()
            sync_folder(self._place.parent)

    def abort(self) -> None:
        self._path.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _written_at(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # a draft that was committed meanwhile
        return float("inf")


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise PayloadGone from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StorageFull("there is no room for inputs and answers", retry_after_s=RETRY_S) from error
        raise StoreUnavailable(f"the store of inputs and answers can't be used: {error.strerror}") from error
