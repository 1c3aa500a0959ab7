"""Rows of stored responses, and of the events of background ones."""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

import msgspec
from asyncpg import Record

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import alone, check_kept
from penstock.connectors.postgres.queries import load
from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import Expired, object_id, owner_of
from penstock.domain.jobs.stored_response import KIND, Begun, EventPiece, Item, ResponseId, StoredResponse

MOST_PIECES = 64
"""Pieces read at once: some hundred kilobytes of events."""
_SQL = load("stored_responses")
_BILLED = ("prompt_tokens", "output_tokens", "cost", "service_tier", "price_factor")
_UNBILLED = (0, 0, 0, "default", 1.0)
_OPEN = msgspec.json.Decoder(dict[int, Item])


class PostgresStoredResponses:
    """Expired ones are named with all of their objects, and forgotten when those are gone."""

    kind = KIND

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def add(self, response: StoredResponse, most_bytes: int = 0) -> None:
        one = response
        async with self._database.transaction() as session:
            if most_bytes:
                await alone(session, one.tenant)
            (row,) = await session.rows(
                _SQL["add"], one.id, one.tenant, one.object, one.created_at, one.expires_at, one.begin_bytes,
                one.input_at, one.input_bytes, one.body_at, one.body_bytes, one.is_background, one.keeps_events,
                one.answer_key,
            )  # fmt: skip
            await check_kept(session, one.tenant, row["kept_bytes"], most_bytes, one.created_at)

    async def find(self, tenant: TenantId, response: str) -> StoredResponse | None:
        row = await self._database.row(_SQL["find"], tenant, response, self._clock.now())
        return None if row is None else StoredResponse(**row)

    async def delete(self, tenant: TenantId, response: ResponseId) -> Sequence[ObjectId] | None:
        return _objects(await self._database.rows(_SQL["delete"], tenant, response)) or None

    async def expire(self, tenant: TenantId, response: ResponseId, at: float) -> None:
        await self._database.rows(_SQL["expire"], tenant, response, at)

    async def expired(self, now: float, limit: int) -> Sequence[Expired]:
        rows = await self._database.rows(_SQL["expired"], now, limit)
        owned = groupby(rows, key=lambda row: owner_of(row["owned"])[1])
        return [Expired(owner, tuple(_objects(of_owner))) for owner, of_owner in owned]

    async def forget(self, owners: Collection[str], now: float) -> None:
        await self._database.rows(_SQL["forget"], [object_id(KIND, owner) for owner in owners], now)

    async def known(self, owners: Collection[str]) -> frozenset[str]:
        rows = await self._database.rows(_SQL["known"], [object_id(KIND, owner) for owner in owners])
        return frozenset(owner_of(row["object"])[1] for row in rows)

    async def events(self, response: ResponseId, after: int, *, newest_only: bool) -> Sequence[EventPiece]:
        rows = await self._database.rows(_SQL["events"], response, after, newest_only, MOST_PIECES)
        return [EventPiece(**{**row, "open": _OPEN.decode(row["open"])}) for row in rows]

    async def begun(self, response: ResponseId) -> Begun:
        row = await self._database.row(_SQL["newest"], response)
        if row is None:
            return Begun()
        return Begun(number=row["last"] + 1, items=row["items"], open=_OPEN.decode(row["open"]))

    async def append(self, piece: EventPiece) -> bool:
        one, still_open = piece, msgspec.json.encode(piece.open).decode()
        try:
            rows = await self._database.rows(
                _SQL["append"], one.response, one.epoch, one.first, one.last, one.object, one.items, still_open,
                *((getattr(one.bill, name) for name in _BILLED) if one.bill is not None else _UNBILLED), one.size_bytes,
            )  # fmt: skip
        except Conflict:
            return False
        return bool(rows)


def _objects(rows: Iterable[Record]) -> list[ObjectId]:
    return [ObjectId(row["object"]) for row in rows if row["object"]]
