"""One file in progress: ``NAME.part`` is always a prefix of the file, so a restart resumes.

The digest is computed while writing; a file gets its name only if it is right.
"""

import errno
import hashlib
import os
import shutil
from pathlib import Path

from penstock.domain.errors import StoreUnavailable
from penstock.domain.models.model import Artifact

SUFFIX = ".part"
_CHUNK_BYTES = 1 << 20
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def part_of(folder: Path, file: Artifact) -> Path:
    return folder / (file.path + SUFFIX)


def bytes_there(folder: Path, file: Artifact) -> int:
    """Finished or not; 0 if they can't be a prefix of the file."""
    for path in (folder / file.path, part_of(folder, file)):
        if path.is_file():
            size = path.stat().st_size
            return size if size <= file.size_bytes else 0
    return 0


def no_room(folder: Path, need_bytes: int) -> StoreUnavailable:
    free = shutil.disk_usage(folder).free
    return StoreUnavailable(
        f"no room in {folder}: {need_bytes:,} bytes needed, {free:,} free; "
        "free some space, or put PENSTOCK_HOME on a larger disk"
    )


def explained(folder: Path, error: OSError, need_bytes: int = 0) -> StoreUnavailable:
    if error.errno in _NO_ROOM:
        return no_room(folder, need_bytes)
    return StoreUnavailable(f"can't write to {folder}: {error.strerror or error}")


class Part:
    def __init__(self, folder: Path, file: Artifact) -> None:
        self._folder, self._file = folder, file
        self._path = part_of(folder, file)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > file.size_bytes:
            self._path.unlink()
        self._digest = hashlib.sha256()
        self._out = self._path.open("a+b")
        self._out.seek(0)
        while chunk := self._out.read(_CHUNK_BYTES):
            self._digest.update(chunk)
        self.offset = self._out.tell()

    def close(self) -> None:
        """On a full disk buffered bytes are lost, and not counted by ``bytes_there``."""
        try:
            self._out.close()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise

    def append(self, data: bytes) -> None:
        try:
            self._out.write(data)
            self._out.flush()
        except OSError as error:
            raise explained(self._folder, error, self._file.size_bytes - self.offset) from error
        self._digest.update(data)
        self.offset += len(data)

    def finish(self) -> bool:
        """Remove the file and return False for a wrong digest."""
        if self.offset != self._file.size_bytes or self._digest.hexdigest() != self._file.sha256:
            self._path.unlink()
            return False
        try:
            os.fsync(self._out.fileno())
        except OSError as error:
            raise explained(self._folder, error, self._file.size_bytes) from error
        self._path.replace(self._folder / self._file.path)
        return True
