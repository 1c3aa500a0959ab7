"""Wrapped keys of tenants in Postgres, and the news of their end."""

from collections.abc import Awaitable, Callable

import asyncpg
from asyncpg import Record

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.listening import Channel
from penstock.connectors.postgres.queries import load
from penstock.domain.ids import TenantId
from penstock.sealing.administration import KeyCount
from penstock.sealing.keys import Context, KeyPurpose, StoredKey, TenantKeys, Wrapped
from penstock.sealing.segments import Unreadable

_SQL = load("tenant_keys")


class PostgresTenantKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self, context: Context) -> StoredKey | None:
        row = await self._database.row(_SQL["newest"], *context)
        return None if row is None else _stored(row)

    async def find(self, tenant: TenantId, key: bytes) -> StoredKey | None:
        if (row := await self._database.row(_SQL["find"], tenant, key)) is not None:
            return _stored(row)
        if not await self._database.rows(_SQL["shredded"], tenant):
            raise Unreadable
        return None

    async def add(self, key: StoredKey) -> StoredKey:
        async with self._database.transaction() as session:
            await session.run(_SQL["alone"], key.context.tenant)
            if (row := await session.row(_SQL["newest"], *key.context)) is not None:
                return _stored(row)
            await session.run(_SQL["add"], key.id, *key.context, *key.wrapped)
        return key

    async def append(self, key: StoredKey) -> None:
        await self._database.rows(_SQL["add"], key.id, *key.context, *key.wrapped)

    async def counts(self, region: str) -> tuple[KeyCount, ...]:
        return tuple(KeyCount(**dict(row)) for row in await self._database.rows(_SQL["counts"], region))

    async def wrapped_otherwise(self, region: str, by: str, limit: int) -> tuple[StoredKey, ...]:
        return tuple(map(_stored, await self._database.rows(_SQL["wrapped_otherwise"], region, by, limit)))

    async def rewrap(self, key: StoredKey, wrapped: Wrapped) -> None:
        await self._database.rows(_SQL["rewrap"], key.id, *wrapped)


async def follow(
    dsn: str, keys: TenantKeys, also: Callable[[asyncpg.Connection], Awaitable[object]] | None = None
) -> None:
    """Forget kept keys that were rotated or shredded: at once by notification, or within two seconds by asking.

    ``also`` is called as often.
    """

    async def look(connection: asyncpg.Connection) -> None:
        if asked := keys.kept:
            rows = await connection.fetch(_SQL["left"], list(asked))
            keys.keep_only(asked, {row["id"] for row in rows})
        if also is not None:
            await also(connection)

    await Channel(dsn, "tenant_keys").follow(look, keys.forget)


def _stored(row: Record) -> StoredKey:
    context = Context(TenantId(row["tenant"]), KeyPurpose(row["purpose"]), row["region"])
    return StoredKey(id=row["id"], context=context, wrapped=Wrapped(row["wrapped_by"], row["wrapped"]))
