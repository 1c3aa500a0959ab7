"""A folder of record files, one line per request, written and read by all gateways of a home.

A killed process loses a quarter of a second of records, and a full disk loses records but no request.

Trade-off: without an index a look-up scans files, newest first, in slices with pauses: 256 MiB take a second and a
tenth of a core, and delay no token.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.serving.request_record import RequestRecord

PAUSE_S = 0.25
SWEEP_EVERY_S = 60.0
MOST_WAITING = 50_000
"""Records in memory: beyond that, new ones are dropped while the disk is blocked."""
SEGMENT_BYTES = 4 << 20
SEGMENT_S = 3600.0
SLICE_BYTES = 256 << 10
SLICE_PAUSE_S = 0.001
MOST_LINE_BYTES = 64 << 10
_ENDING = ".jsonl"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RequestRecord).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderBounds:
    most_bytes: int
    keep_s: float


def _nobody(_: int) -> None: ...


class RecordFolder:
    """Readable by its owner alone; ``on_lost`` gets the number of records that the disk refused."""

    def __init__(
        self, folder: Path, bounds: FolderBounds, clock: Clock, on_lost: Callable[[int], None] = _nobody
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder, self._bounds, self._clock, self._on_lost = folder, bounds, clock, on_lost
        self._new: list[RequestRecord] = []
        self._fd, self._size, self._began_at, self._number = -1, 0, 0.0, 0
        self._swept_at = -SWEEP_EVERY_S
        self._writing, self._reading = asyncio.Lock(), asyncio.Lock()

    def keep(self, record: RequestRecord) -> None:
        if len(self._new) < MOST_WAITING:
            self._new.append(record)
        else:
            self._on_lost(1)

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(PAUSE_S)
                await self.flush()
        finally:
            self._write(self._new)

    async def flush(self) -> None:
        async with self._writing:
            batch, self._new = self._new, []
            await asyncio.to_thread(self._write, batch)

    async def find(self, request_id: str) -> RequestRecord | None:
        return await self._read(f'["{request_id}",'.encode(), is_last=False)

    async def last_attempt(self, job: str) -> RequestRecord | None:
        return await self._read(f'["{job}-'.encode(), is_last=True)

    async def _read(self, start: bytes, *, is_last: bool) -> RequestRecord | None:
        await self.flush()
        async with self._reading:
            line = await asyncio.to_thread(self._found, start, is_last=is_last)
        try:
            return _decode(line) if line else None
        except msgspec.MsgspecError:  # of a newer gateway, before this one was put back
            return None

    def _found(self, start: bytes, *, is_last: bool) -> bytes:
        lines = (_beginning(file, start, is_last=is_last) for file in self._newest_first())
        return next(filter(None, lines), b"")

    def _write(self, batch: Sequence[RequestRecord]) -> None:
        now = self._clock.now()
        data = b"".join([_encode(record) + b"\n" for record in batch])
        if data and not self._append(data, now):
            self._on_lost(len(batch))
        if now - self._swept_at >= SWEEP_EVERY_S:
            self._swept_at = now
            self._sweep(now)

    def _append(self, data: bytes, now: float) -> bool:
        try:
            if self._fd < 0 or self._size + len(data) > self._most_of_one or now - self._began_at > SEGMENT_S:
                self._rotate(now)
            written = os.write(self._fd, data)
            if written < len(data):
                os.ftruncate(self._fd, self._size)
                return False
        except OSError:
            return False
        self._size += written
        return True

    @property
    def _most_of_one(self) -> int:
        return min(SEGMENT_BYTES, self._bounds.most_bytes // 8)

    def _rotate(self, now: float) -> None:
        self._sweep(now)
        self._number += 1
        path = self._folder / f"{int(now * 1e6):020d}-{os.getpid()}-{self._number}{_ENDING}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size, self._began_at = fd, 0, now

    def _sweep(self, now: float) -> None:
        left = self._bounds.most_bytes - self._most_of_one
        for file in self._newest_first():
            with suppress(FileNotFoundError):  # another gateway was quicker
                left -= file.stat().st_size
                if left < 0 or _began_at(file) < now - self._bounds.keep_s:
                    file.unlink()

    def _newest_first(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_ENDING}"), key=lambda file: file.name, reverse=True)


def _began_at(file: Path) -> float:
    return int(file.name.partition("-")[0]) / 1e6


def _beginning(path: Path, start: bytes, *, is_last: bool) -> bytes:
    """Return the first or last line that begins with ``start``, without its newline; empty if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        at = _offset(fd, b"\n" + start, is_last=is_last)
        line, ended, _ = os.pread(fd, MOST_LINE_BYTES, at).partition(b"\n") if at >= 0 else (b"", b"", b"")
        return line if ended else b""
    finally:
        os.close(fd)


def _offset(fd: int, needle: bytes, *, is_last: bool) -> int:
    offset, tail, last = 0, b"\n", -1
    while piece := os.pread(fd, SLICE_BYTES, offset):
        found = (tail + piece).rfind(needle) if is_last else (tail + piece).find(needle)
        if found >= 0:
            last = offset - len(tail) + found + 1
            if not is_last:
                return last
        offset += len(piece)
        tail = piece[-len(needle) + 1 :]
        time.sleep(SLICE_PAUSE_S)
    return last
