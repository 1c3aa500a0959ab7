"""``AnswerStore`` in this process: the default with one gateway."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.serving.idempotency import KEEP_S, PIECE_BYTES, USUAL_QUOTA, AnswerQuota, Claim, Piece, RecordKey

SWEEP_EVERY_S = 60.0


@dataclass(slots=True)
class _AnswerRecord:
    fingerprint: str
    expires_at: float
    pieces: list[Piece] = field(default_factory=list)
    size_bytes: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    broken: bool = False

    @property
    def is_complete(self) -> bool:
        return bool(self.pieces) and self.pieces[-1].is_end

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass(slots=True)
class _Room:
    records: dict[str, _AnswerRecord] = field(default_factory=dict)
    size_bytes: int = 0

    def oldest(self) -> str | None:
        return next((name for name, record in self.records.items() if record.is_complete), None)


class MemoryAnswers:
    """A tenant above its quota loses its oldest records; beyond ``max_bytes`` the largest tenant loses some."""

    def __init__(self, clock: Clock, quota: AnswerQuota = USUAL_QUOTA, *, max_bytes: int = 256 << 20) -> None:
        self._clock = clock
        self._quota = quota
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._sweep_at = 0.0
        self._rooms: dict[TenantId, _Room] = {}

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        now = self._clock.now()
        self._sweep(now)
        room = self._rooms.setdefault(key.tenant, _Room())
        record = room.records.get(key.name)
        if record is None:
            if not self._has_room(room, records=1):
                return Claim.FULL
            room.records[key.name] = _AnswerRecord(fingerprint, now + KEEP_S)
            return Claim.MINE
        if record.fingerprint != fingerprint:
            return Claim.OTHER
        return Claim.SAME if record.is_complete else Claim.GROWING

    async def has(self, key: RecordKey) -> bool:
        self._sweep(self._clock.now())
        return self._find(key)[1] is not None

    async def append(self, key: RecordKey, piece: Piece, keep_s: float = KEEP_S) -> None:
        room, record = self._find(key)
        if record is None:
            raise Conflict("there is no record under this idempotency key")
        if piece == Piece():
            return
        size_bytes = PIECE_BYTES + len(piece.data)
        if not self._has_room(room, more_bytes=size_bytes):
            await self.release(key)
            raise Conflict("the tenant's space for stored answers is used up by answers in progress")
        record.pieces.append(piece)
        record.size_bytes += size_bytes
        room.size_bytes += size_bytes
        self._size_bytes += size_bytes
        if piece.is_end:
            record.expires_at = self._clock.now() + keep_s
        record.wake()
        self._shrink()

    async def release(self, key: RecordKey) -> None:
        room, record = self._find(key)
        if record is not None:
            self._drop(room, key.name)
            record.broken = True
            record.wake()

    async def drop(self, key: RecordKey) -> None:
        await self.release(key)

    async def forget(self, tenant: TenantId) -> int:
        names = list((self._rooms.get(tenant) or _Room()).records)
        for name in names:
            await self.release(RecordKey(tenant, name))
        return len(names)

    async def follow(self, key: RecordKey) -> AsyncIterator[Piece]:
        (_, record), at = self._find(key), 0
        while record is not None and not record.broken:
            while at < len(record.pieces):
                yield record.pieces[at]
                if record.pieces[at].is_end:
                    return
                at += 1
            await record.changed.wait()
        raise Conflict("the first request with this idempotency key broke off; send it again")

    def _find(self, key: RecordKey) -> tuple[_Room, _AnswerRecord | None]:
        room = self._rooms.get(key.tenant) or _Room()
        return room, room.records.get(key.name)

    def _has_room(self, room: _Room, *, more_bytes: int = 0, records: int = 0) -> bool:
        quota = self._quota
        while room.size_bytes + more_bytes > quota.max_bytes or len(room.records) + records > quota.max_records:
            oldest = room.oldest()
            if oldest is None:
                return False
            self._drop(room, oldest)
        return True

    def _shrink(self) -> None:
        while self._size_bytes > self._max_bytes:
            giving = ((room, name) for room in self._rooms.values() if (name := room.oldest()) is not None)
            given = max(giving, key=lambda found: found[0].size_bytes, default=None)
            if given is None:
                return
            self._drop(*given)

    def _sweep(self, now: float) -> None:
        if now < self._sweep_at:
            return
        self._sweep_at = now + SWEEP_EVERY_S
        for tenant, room in list(self._rooms.items()):
            while (oldest := room.oldest()) is not None and room.records[oldest].expires_at <= now:
                self._drop(room, oldest)
            if not room.records:
                del self._rooms[tenant]

    def _drop(self, room: _Room, name: str) -> None:
        size_bytes = room.records.pop(name).size_bytes
        room.size_bytes -= size_bytes
        self._size_bytes -= size_bytes
