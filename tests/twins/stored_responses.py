"""``ResponseStore`` in memory. A job holds its response while ``holders`` names its epoch."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, ExceedsLimit
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import ROW_BYTES, Expired, owner_of
from penstock.domain.jobs.stored_response import KIND, Begun, EventPiece, ResponseId, StoredResponse


class MemoryStoredResponses:
    kind = KIND

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[ResponseId, StoredResponse] = {}
        self._pieces: dict[ResponseId, list[EventPiece]] = {}
        self.holders: dict[ResponseId, int] = {}

    async def add(self, response: StoredResponse, most_bytes: int = 0) -> None:
        if response.id in self._rows:
            raise Conflict
        others = [one for one in self._rows.values() if one.tenant == response.tenant]
        if 0 < most_bytes < sum(map(_kept, [*others, response])):
            raise ExceedsLimit if _kept(response) > most_bytes else NoFileRoom
        self._rows[response.id] = response

    async def find(self, tenant: TenantId, response: str) -> StoredResponse | None:
        found = self._rows.get(ResponseId(response))
        is_there = found is not None and found.tenant == tenant and found.expires_at > self._clock.now()
        return found if is_there else None

    async def delete(self, tenant: TenantId, response: ResponseId) -> Sequence[ObjectId] | None:
        found = self._rows.get(response)
        if found is None or found.tenant != tenant:
            return None
        return self._objects(self._rows.pop(response))

    def _objects(self, stored: StoredResponse) -> list[ObjectId]:
        return [stored.object, *(piece.object for piece in self._pieces.pop(stored.id, ()))]

    async def expire(self, tenant: TenantId, response: ResponseId, at: float) -> None:
        found = self._rows.get(response)
        if found is not None and found.tenant == tenant:
            self._rows[response] = replace(found, expires_at=min(found.expires_at, at))

    async def expired(self, now: float, limit: int) -> Sequence[Expired]:
        due = sorted((one.expires_at, one.id) for one in self._rows.values() if one.expires_at <= now)[:limit]
        rows = [self._rows[response] for _, response in due]
        pieces = self._pieces
        return [
            Expired(owner_of(one.object)[1], (one.object, *(piece.object for piece in pieces.get(one.id, ()))))
            for one in rows
        ]

    async def forget(self, owners: Collection[str], now: float) -> None:
        del now
        for stored in [one for one in self._rows.values() if owner_of(one.object)[1] in owners]:
            self._objects(self._rows.pop(stored.id))

    async def known(self, owners: Collection[str]) -> frozenset[str]:
        return frozenset(owner_of(one.object)[1] for one in self._rows.values()) & frozenset(owners)

    async def events(self, response: ResponseId, after: int, *, newest_only: bool) -> Sequence[EventPiece]:
        pieces = self._pieces.get(response, [])
        newest = max((piece.epoch for piece in pieces), default=0)
        return [piece for piece in pieces if piece.last > after and (not newest_only or piece.epoch == newest)]

    async def begun(self, response: ResponseId) -> Begun:
        pieces = self._pieces.get(response)
        if not pieces:
            return Begun()
        last = pieces[-1]
        return Begun(number=last.last + 1, items=last.items, open=last.open)

    async def append(self, piece: EventPiece) -> bool:
        kept = self._pieces.setdefault(piece.response, [])
        is_taken = any(other.first == piece.first for other in kept)
        if piece.response not in self._rows or self.holders.get(piece.response) != piece.epoch or is_taken:
            return False
        kept.append(piece)
        return True


def _kept(one: StoredResponse) -> int:
    return ROW_BYTES + one.begin_bytes + (0 if one.is_background else one.input_bytes + one.body_bytes)
