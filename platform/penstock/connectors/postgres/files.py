"""Rows of files in Postgres. A tenant's bounds are checked by one transaction at a time, against its rows."""

from collections.abc import Sequence

import asyncpg

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.jobs import alone, check_kept
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict, UnknownObject
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.file import KIND, FileLimits, FilePage, FilePurpose, FileState, StoredFile
from penstock.domain.jobs.ids import FileId, ObjectId
from penstock.domain.jobs.payload import ROW_BYTES, Expired

_SQL = load("files")


class PostgresFiles:
    kind = KIND

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, file: StoredFile, limits: FileLimits) -> None:
        async with self._database.transaction() as session:
            await alone(session, file.tenant)
            await session.run(
                _SQL["begin"],
                file.id,
                file.tenant,
                file.key,
                file.name,
                file.purpose,
                file.size_bytes,
                file.created_at,
                file.expires_at,
                file.object,
                file.state,
            )
            await _check(session, file, limits, file.created_at)

    async def touch(self, file: FileId, until: float) -> None:
        if await self._database.row(_SQL["touch"], file, until) is None:
            raise UnknownObject("this upload was taken for broken off; send the file again")

    async def finish(self, file: StoredFile, limits: FileLimits, now: float) -> None:
        """Raises ``Conflict`` if another upload under the same idempotency key ended first."""
        async with self._database.transaction() as session:
            await alone(session, file.tenant)
            if file.idempotency:
                await session.run(_SQL["free_key"], file.tenant, file.idempotency, now)
            told = (file.name, file.purpose, file.size_bytes, file.expires_at, file.idempotency, file.fingerprint)
            if await session.row(_SQL["finish"], file.tenant, file.id, *told) is None:
                raise UnknownObject("this upload was taken for broken off; send the file again")
            await _check(session, file, limits, now)

    async def abandon(self, file: FileId, now: float) -> None:
        await self._database.rows(_SQL["abandon"], file, now)

    async def keyed(self, tenant: TenantId, idempotency: str, now: float) -> StoredFile | None:
        row = await self._database.row(_SQL["keyed"], tenant, idempotency, now)
        return None if row is None else _file(row)

    async def find(self, tenant: TenantId, file: FileId, now: float) -> StoredFile:
        row = await self._database.row(_SQL["find"], tenant, file, now)
        if row is None:
            raise UnknownObject
        return _file(row)

    async def page(self, tenant: TenantId, wanted: FilePage, now: float) -> tuple[StoredFile, ...]:
        query = _SQL["oldest"] if wanted.is_oldest_first else _SQL["newest"]
        rows = await self._database.rows(query, tenant, wanted.purpose, wanted.after, wanted.limit, now)
        return tuple(map(_file, rows))

    async def delete(self, tenant: TenantId, file: FileId, now: float) -> None:
        """Raises ``Conflict`` while a batch reads the file."""
        async with self._database.transaction() as session:
            await session.row(_SQL["lock"], tenant, file)
            user = await session.row(_SQL["user"], file)
            if await session.row(_SQL["delete"], tenant, file, now) is None:
                raise UnknownObject
            if user is not None and user["id"] is not None:
                raise Conflict(f"{user['id']} reads this file: cancel the batch first, or wait for its end")

    async def expire(self, tenant: TenantId, file: FileId, at: float) -> None:
        await self._database.rows(_SQL["expire"], tenant, file, at)

    # -- retention -----------------------------------------------------------------------

    async def expired(self, now: float, limit: int) -> tuple[Expired, ...]:
        rows = await self._database.rows(_SQL["expired"], now, limit)
        return tuple(Expired(row["id"], (ObjectId(row["object"]),)) for row in rows)

    async def forget(self, owners: Sequence[str], now: float) -> None:
        await self._database.rows(_SQL["forget"], list(owners), now)

    async def known(self, owners: Sequence[str]) -> frozenset[str]:
        return frozenset(row["id"] for row in await self._database.rows(_SQL["known"], list(owners)))


async def _check(session: Session, file: StoredFile, limits: FileLimits, now: float) -> None:
    if limits.files:
        (used,) = await session.rows(_SQL["used"], file.tenant, now)
        if used["files"] > limits.files:
            raise NoFileRoom(
                f"this tenant may keep {limits.files} files: delete some, or let them expire", reason="tenant_files"
            )
    await check_kept(session, file.tenant, ROW_BYTES + file.size_bytes, limits.size_bytes, now)


def _file(row: asyncpg.Record) -> StoredFile:
    return StoredFile(
        id=FileId(row["id"]),
        tenant=TenantId(row["tenant"]),
        key=KeyId(row["key"]),
        name=row["name"],
        purpose=FilePurpose(row["purpose"]),
        size_bytes=row["bytes"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        object=ObjectId(row["object"]),
        state=FileState(row["state"]),
        idempotency=row["idempotency"],
        fingerprint=row["fingerprint"],
    )
