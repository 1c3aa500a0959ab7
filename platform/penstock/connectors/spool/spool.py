"""The spool: gateways append ledger rows and interventions here on the hot path; a loop delivers whole segments.

Delivery is at least once and the database keeps each row once. The next process in the home finishes a dead process's
segments, open requests included. A written line survives the process; ``fsync`` once a second, in a thread, bounds the
loss if the machine fails.
"""

import asyncio
import errno
import fcntl
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar

from penstock.connectors.spool.segment import (
    Closed,
    DeliveredTokens,
    Filtered,
    History,
    Line,
    Matched,
    Opened,
    encode,
    lines,
)
from penstock.domain.clock import Clock
from penstock.domain.errors import BadRequest, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.outage import retry_after_s
from penstock.domain.tenancy.ledger import LedgerRow, LedgerSink, Opening
from penstock.domain.tokens import Usage
from penstock.filters.evidence import SealedText, TextSink
from penstock.filters.intervention import Intervention, InterventionSink

SEGMENT_BYTES = 1 << 20
BATCH_ROWS = 500
LINES_AT_ONCE = 64
"""Lines read per iteration of the event loop: a quarter of a millisecond."""
REFUSED = ".refused"
"""The name of files with rows that the ledger refuses."""
Took = Callable[[Iterable[Opening]], Awaitable[Mapping[RequestId, Usage]]]
Heir = Callable[[Sequence[LedgerRow]], Awaitable[None]]
Row = LedgerRow | Intervention | SealedText
OnRefused = Callable[[Row, str], None]
T = TypeVar("T", LedgerRow, Intervention, SealedText)


class Sink(LedgerSink, InterventionSink, TextSink, Protocol):
    pass


class Spool:
    """Locks its folder for the process's life. ``on_refused`` gets each row that the ledger refuses, and why."""

    def __init__(self, folder: Path, clock: Clock, on_refused: OnRefused = lambda *_: None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._clock = clock
        self._on_refused = on_refused
        self._name = f"{int(clock.now() * 1e6):020d}-{os.getpid()}"
        self._lock = _lock(folder / f"{self._name}.lock")
        self._open: dict[RequestId, Opening] = {}
        self._tokens: dict[RequestId, int] = {}
        self._is_behind = False
        self._number = 0
        self._sealed: list[int] = []
        self._fd = self._new_segment()
        self._size = 0
        self._backlog: list[Line] = []
        self._full_since: float | None = None

    @property
    def is_full(self) -> bool:
        """The disk refuses lines: new requests must be refused."""
        return self._full_since is not None

    def used_ratio(self) -> float:
        """Used part of the spool's file system; 0 if it has no size."""
        found = os.statvfs(self._fd)
        return 1.0 - found.f_bavail / found.f_blocks if found.f_blocks else 0.0

    def opened(self, opening: Opening) -> None:
        if not self._retry() or not self._write(Opened(opening)):
            message = "this gateway can't record requests now, so it starts none: its disk is full"
            raise StoreUnavailable(message, retry_after_s=self._wait_s())
        self._open[opening.request] = opening

    def delivered(self, request: RequestId, tokens: int) -> None:
        """Store a stream's delivered tokens; they are written by the next ``flush``."""
        if tokens and request in self._open:
            self._tokens[request] = tokens
            self._is_behind = True

    def closed(self, row: LedgerRow) -> None:
        """Keep the row in memory if the disk is full, with ``is_full`` True."""
        self._open.pop(row.request, None)
        self._tokens.pop(row.request, None)
        self._keep(row)

    def filtered(self, told: Intervention | SealedText) -> None:
        """Record an intervention or its text; like a row it survives this process, and waits while the disk is full."""
        self._keep(told)

    def _keep(self, row: Row) -> None:
        line = _line(row)
        if self._backlog or not self._write(line):
            self._backlog.append(line)

    def flush(self) -> None:
        """Write progress and retry refused lines, about once a second."""
        if self._retry() and self.is_full:
            self._write(DeliveredTokens(self._clock.now(), {}))  # finds out if the disk has room again
        if self._is_behind:
            self._note_progress()

    async def deliver(self, sink: Sink, heir: Heir | None = None, took: Took | None = None) -> int:
        """Sync, then deliver sealed segments and those of dead processes; return the number of rows. ``heir`` gets a
        dead process's rows first, perhaps more than once: it settles their leases.
        """
        if self._size and not self.is_full:
            self._rotate()
        await self._sync()
        rows = 0
        for segment in sorted(self._folder.glob(f"{self._name}.*.jsonl"))[:-1]:
            rows += await self._carry(await _read([segment]), [segment], sink)
        for name in sorted({p.name.split(".")[0] for p in self._folder.glob("*.lock")} - {self._name}):
            rows += await self._finish(name, sink, heir, took)
        return rows

    def leave(self) -> None:
        """Remove empty files and release the lock: the next process delivers the others."""
        for fd in (*self._sealed, self._fd):
            os.close(fd)
        aside = self._folder / f"{self._name}{REFUSED}"
        if not self._size and not aside.exists():
            for segment in self._folder.glob(f"{self._name}.*.jsonl"):
                segment.unlink()
            (self._folder / f"{self._name}.lock").unlink()
        os.close(self._lock)

    async def _sync(self) -> None:
        """The current segment too: only it holds the open requests."""
        sealed, self._sealed = self._sealed, []
        await asyncio.to_thread(_sync_and_close, [*sealed, os.dup(self._fd)])

    async def _finish(self, name: str, sink: Sink, heir: Heir | None, took: Took | None) -> int:
        lock = self._folder / f"{name}.lock"
        try:
            fd = _lock(lock)
        except OSError:
            return 0
        try:
            segments = [*sorted(self._folder.glob(f"{name}.*.jsonl")), *self._folder.glob(f"{name}{REFUSED}")]
            history = await _read(segments)
            history.rows += history.lost(await took(history.open.values()) if took is not None else {})
            if heir is not None:
                await heir(history.rows)
            rows = await self._carry(history, segments, sink)
            lock.unlink(missing_ok=True)
        finally:
            os.close(fd)
        return rows

    async def _carry(self, history: History, segments: list[Path], sink: Sink) -> int:
        await self._append(history.rows, sink.append)
        await self._append(history.interventions, sink.record)
        await self._append(history.texts, sink.keep)
        for segment in segments:
            segment.unlink()
        return len(history.rows)

    async def _append(self, all_: Sequence[T], append: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        for start in range(0, len(all_), BATCH_ROWS):
            await self._append_some(all_[start : start + BATCH_ROWS], append)

    async def _append_some(self, rows: Sequence[T], append: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        """Append rows; if the database refuses, find the faulty row by halving and set it aside."""
        try:
            await append(rows)
        except BadRequest as refused:
            if len(rows) == 1:
                await asyncio.to_thread(self._set_aside, rows[0])
                self._on_refused(rows[0], str(refused))
                return
            half = len(rows) // 2
            await self._append_some(rows[:half], append)
            await self._append_some(rows[half:], append)

    def _set_aside(self, row: Row) -> None:
        fd = os.open(self._folder / f"{self._name}{REFUSED}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(fd, "ab") as aside:
            aside.write(encode(_line(row)) + b"\n")
            aside.flush()
            os.fsync(fd)

    def _write(self, line: Line) -> bool:
        data = encode(line) + b"\n"
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                raise
            written = 0
        if written < len(data):
            if written:
                os.ftruncate(self._fd, self._size)
            if self._full_since is None:
                self._full_since = self._clock.monotonic()
            return False
        self._full_since = None
        self._size += written
        if self._size >= SEGMENT_BYTES:
            self._rotate()
        return True

    def _note_progress(self) -> None:
        if self._tokens:
            self._is_behind = not self._write(DeliveredTokens(self._clock.now(), self._tokens))

    def _wait_s(self) -> float:
        return retry_after_s(0.0 if self._full_since is None else self._clock.monotonic() - self._full_since)

    def _retry(self) -> bool:
        while self._backlog and self._write(self._backlog[0]):
            self._backlog.pop(0)
        return not self._backlog

    def _rotate(self) -> None:
        """Open requests are carried into the next segment, so that each is complete by itself."""
        fd = self._new_segment()
        self._sealed.append(self._fd)
        self._fd, self._size = fd, 0
        for opening in self._open.values():
            if not self._write(Opened(opening)):
                self._backlog.append(Opened(opening))
        self._note_progress()

    def _new_segment(self) -> int:
        self._number += 1
        path = self._folder / f"{self._name}.{self._number:06d}.jsonl"
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _line(row: Row) -> Line:
    if isinstance(row, LedgerRow):
        return Closed(row)
    return Filtered(row) if isinstance(row, Intervention) else Matched(row)


def _sync_and_close(fds: Sequence[int]) -> None:
    try:
        for fd in fds:
            os.fsync(fd)
    finally:
        for fd in fds:
            os.close(fd)


async def _read(segments: list[Path]) -> History:
    history = History()
    for number, line in enumerate(chain.from_iterable(map(lines, segments)), start=1):
        history.take(line)
        if number % LINES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return history


def _lock(path: Path) -> int:
    """Lock the folder until this process ends; ``OSError`` if another living process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd
