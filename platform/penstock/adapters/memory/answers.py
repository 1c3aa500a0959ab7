"""``domain.idempotency.AnswerStore`` in this process: the default with one gateway."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict
from penstock.domain.idempotency import KEEP_S, Claim, Piece, RecordKey


@dataclass(slots=True)
class _Record:
    """One answer as it grows."""

    fingerprint: str
    expires_at: float
    pieces: list[Piece] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    broken: bool = False


class MemoryAnswers:
    """Answers of one process, the oldest forgotten first when they take more than ``max_bytes``."""

    def __init__(self, clock: Clock, *, max_bytes: int = 64 << 20) -> None:
        """Begin empty."""
        self._clock = clock
        self._max_bytes = max_bytes
        self._bytes = 0
        self._records: dict[RecordKey, _Record] = {}

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        """Open a record for this body, or tell what is there."""
        self._forget()
        record = self._records.get(key)
        if record is None:
            self._records[key] = _Record(fingerprint, self._clock.now() + KEEP_S)
            return Claim.MINE
        if record.fingerprint != fingerprint:
            return Claim.OTHER
        return Claim.SAME if _is_complete(record) else Claim.GROWING

    async def append(self, key: RecordKey, piece: Piece) -> None:
        """Add to the record."""
        record = self._records.get(key)
        if record is not None and piece != Piece():
            record.pieces.append(piece)
            self._bytes += len(piece.data)
            _wake(record)

    async def release(self, key: RecordKey) -> None:
        """Forget the record and tell who follows it."""
        record = self._records.pop(key, None)
        if record is not None:
            self._bytes -= _size(record)
            record.broken = True
            _wake(record)

    async def follow(self, key: RecordKey) -> AsyncIterator[Piece]:
        """Yield the record's pieces as they come."""
        record, at = self._records.get(key), 0
        while record is not None and not record.broken:
            while at < len(record.pieces):
                yield record.pieces[at]
                if record.pieces[at].is_end:
                    return
                at += 1
            await record.changed.wait()
        raise Conflict("the first request with this idempotency key broke off; send it again")

    def _forget(self) -> None:
        """Drop complete records that are too old or, oldest first, too many."""
        now = self._clock.now()
        for key, record in list(self._records.items()):
            if now < record.expires_at and self._bytes <= self._max_bytes:
                break
            if _is_complete(record):
                self._bytes -= _size(record)
                del self._records[key]


def _wake(record: _Record) -> None:
    record.changed.set()
    record.changed = asyncio.Event()


def _is_complete(record: _Record) -> bool:
    return bool(record.pieces) and record.pieces[-1].is_end


def _size(record: _Record) -> int:
    return sum(len(piece.data) for piece in record.pieces)
