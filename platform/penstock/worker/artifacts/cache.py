"""A node's cache of versions: one folder each. The least recently used copy that no process uses is evicted first.

``DIGEST/`` complete copy · ``.DIGEST.part/`` in progress · ``.DIGEST.sig`` signature · ``.DIGEST.lock`` held while
fetching · ``.DIGEST.use`` held shared by each process that uses the copy; its mtime is the last use. Locks are the
kernel's (``flock``) and end with the process.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from penstock.domain.models.model import is_sha256
from penstock.worker.artifacts.parts import no_room

RESERVE_BYTES = 64 << 20
"""Bytes left free on the disk for logs and database."""

READ_ONLY = 0o444


class Hold:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        os.utime(path)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedCopy:
    digest: str
    size_bytes: int
    used_at: float


class NodeCache:
    def __init__(self, root: Path, *, budget_bytes: int) -> None:
        self._root, self._budget_bytes = root, budget_bytes
        root.mkdir(parents=True, exist_ok=True)

    def folder(self, digest: str) -> Path:
        return self._root / digest

    def staging(self, digest: str) -> Path:
        return self._root / f".{digest}.part"

    def signature(self, digest: str) -> Path:
        """Outside the copy's folder, since the signature covers every file inside."""
        return self._root / f".{digest}.sig"

    @contextmanager
    def fetching(self, digest: str) -> Iterator[None]:
        path = self._root / f".{digest}.lock"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def hold(self, digest: str) -> Hold:
        return Hold(self._use(digest))

    def publish(self, digest: str) -> Path:
        """Files become read-only. Folders stay writable for their owner, so that a home can be removed."""
        self.drop(digest)
        for path in self.staging(digest).rglob("*"):
            if path.is_file():
                path.chmod(READ_ONLY)
        return self.staging(digest).rename(self.folder(digest))

    def drop(self, digest: str) -> None:
        """Delete even a copy in use: processes keep the files that they have open."""
        trash = self._root / f".trash.{uuid4().hex}"
        with suppress(FileNotFoundError):
            self.folder(digest).rename(trash)
        shutil.rmtree(trash, ignore_errors=True)

    def make_room(self, need_bytes: int, *, within_budget: bool = False) -> None:
        """Evict until budget and disk have room; raises ``StoreUnavailable``.

        Unless ``within_budget``, a version larger than the budget is admitted alone rather than never served.
        """
        if not self._fits(need_bytes):
            self._sweep()
        for entry in self.entries():
            if self._fits(need_bytes):
                return
            self._evict(entry.digest)
        is_full = shutil.disk_usage(self._root).free < need_bytes + RESERVE_BYTES
        if is_full or (within_budget and not self._fits(need_bytes)):
            raise no_room(self._root, need_bytes + RESERVE_BYTES)

    def entries(self) -> list[CachedCopy]:
        found = [self._entry(path) for path in self._root.iterdir() if is_sha256(path.name)]
        return sorted(found, key=lambda entry: entry.used_at)

    def _fits(self, need_bytes: int) -> bool:
        used = sum(entry.size_bytes for entry in self.entries())
        free = shutil.disk_usage(self._root).free
        return used + need_bytes <= self._budget_bytes and free >= need_bytes + RESERVE_BYTES

    def _evict(self, digest: str) -> None:
        with _unless_locked(self._use(digest)) as is_free:
            if is_free:
                self.drop(digest)
                self.signature(digest).unlink(missing_ok=True)

    def _sweep(self) -> None:
        for path in self._root.glob(".trash.*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self._root.glob(".*.part"):
            with _unless_locked(path.with_suffix(".lock")) as is_free:
                if is_free:
                    shutil.rmtree(path, ignore_errors=True)

    def _entry(self, path: Path) -> CachedCopy:
        use = self._use(path.name)
        used_at = use.stat().st_mtime if use.exists() else 0.0
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return CachedCopy(digest=path.name, size_bytes=size, used_at=used_at)

    def _use(self, digest: str) -> Path:
        return self._root / f".{digest}.use"


@contextmanager
def _unless_locked(path: Path) -> Iterator[bool]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(fd)
