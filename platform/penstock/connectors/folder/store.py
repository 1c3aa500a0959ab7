"""Artifacts in a folder: ``blobs/<sha256>``, ``signatures/<digest>``, ``bills/<digest>``.

A blob is stored whole or not at all: written to a temporary file, hashed meanwhile, then renamed.
"""

import asyncio
import errno
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.domain.models.model import is_sha256
from penstock.files.whole import appearing

MAX_SMALL_BYTES = 64 << 20
SHARED = 0o666
"""Less the process's umask: other users' workers may read a store."""
_CHUNK_BYTES = 1 << 20


class FolderStore:
    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, sha256: str) -> bool:
        return self._blob(sha256).is_file()

    def size(self, sha256: str) -> int:
        with _explained(self._root, sha256):
            return self._blob(sha256).stat().st_size

    def put(self, sha256: str, content: Path | bytes) -> bool:
        """Replaces a damaged blob; False if the blob is stored already. Content with another digest is refused."""
        place = self._blob(sha256)
        with _explained(self._root, sha256):
            if place.is_file() and _digest(place) == sha256:
                return False
            with appearing(place, SHARED) as out:
                if _copy(content, out) != sha256:
                    raise ArtifactRefused(f"the content put under {sha256} has another SHA-256")
        return True

    def put_signature(self, digest: str, signature: bytes) -> None:
        self._put_record("signatures", digest, signature)

    def signature(self, digest: str) -> bytes | None:
        return self._record("signatures", digest)

    def put_bill(self, digest: str, bill: bytes) -> None:
        self._put_record("bills", digest, bill)

    def bill(self, digest: str) -> bytes | None:
        return self._record("bills", digest)

    def signed(self, prefix: str) -> tuple[str, ...]:
        with _explained(self._root, prefix):
            folder = self._root / "signatures"
            names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return tuple(sorted(name for name in names if is_sha256(name) and name.startswith(prefix)))

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        with _explained(self._root, sha256), self._blob(sha256).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def read_small(self, sha256: str) -> bytes:
        if self.size(sha256) > MAX_SMALL_BYTES:
            raise ArtifactRefused(f"blob {sha256} is too large to be read at once")
        raw = self.read_range(sha256, 0, MAX_SMALL_BYTES)
        if hashlib.sha256(raw).hexdigest() != sha256:
            raise ArtifactRefused(f"blob {sha256} is damaged or was altered in the artifact store; push it again")
        return raw

    async def read(self, sha256: str) -> bytes:
        return await asyncio.to_thread(self.read_small, sha256)

    def _put_record(self, kind: str, digest: str, content: bytes) -> None:
        with _explained(self._root, digest), appearing(self._root / kind / _checked(digest), SHARED) as out:
            out.write(content)

    def _record(self, kind: str, digest: str) -> bytes | None:
        path = self._root / kind / _checked(digest)
        with _explained(self._root, digest):
            return path.read_bytes() if path.is_file() else None

    def _blob(self, sha256: str) -> Path:
        return self._root / "blobs" / _checked(sha256)


def _checked(sha256: str) -> str:
    if not is_sha256(sha256):
        raise ArtifactRefused(f"{sha256[:80]!r} is not a SHA-256")
    return sha256


def _copy(content: Path | bytes, out: IO[bytes]) -> str:
    if isinstance(content, bytes):
        out.write(content)
        return hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    with content.open("rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _explained(root: Path, sha256: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ArtifactRefused(f"the artifact store {root} has no blob {sha256}; push the model again") from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            free = shutil.disk_usage(root).free
            raise StoreUnavailable(f"no room in the artifact store {root}: {free:,} bytes free") from error
        raise StoreUnavailable(f"the artifact store {root} can't be used: {error.strerror}") from error
