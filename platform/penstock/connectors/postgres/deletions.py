"""Deletions in Postgres: as operators ask for them, and as runners and gateways work on them.

Each row leaves in the statement that counts it, so that counts are right if a process was cut off in between.
"""

from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import msgspec
from asyncpg import Record

from penstock.connectors.postgres.audit import note
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.deletion import Counts, Deletion, DeletionId, Owned, Scope
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import Extent
from penstock.domain.tenancy.audit import Act
from penstock.filters.evidence import SealedText
from penstock.telemetry.logs import logger

LINES_AT_ONCE = 5_000
"""Lines deleted by one statement: a second of a small database."""
_SQL = load("deletions")
_STOPS = (_SQL["stop_jobs"], _SQL["stop_lines"])
_OWNED = {"files": _SQL["files"], "lines": _SQL["lines"], "jobs": _SQL["jobs"], "responses": _SQL["responses"]}
_FORGETS = {"files": _SQL["forget_files"], "jobs": _SQL["forget_jobs"], "responses": _SQL["forget_responses"]}
_PLAIN = ("until", "asked_by", "asked_at", "training_use", "answers_at", "swept_at", "ended_at")


class PostgresDeletions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, new: Deletion, act: Act) -> Deletion:
        scope = new.scope
        async with self._database.transaction() as session:
            if (row := await session.row(_SQL["same"], *scope)) is not None:
                return _deletion(row)
            keys = (await session.rows(_SQL["shred"], scope.tenant))[0]["keys"] if scope.is_whole else 0
            told = (new.until, new.asked_by, new.asked_at, keys, new.found, new.training_use)
            (row,) = await session.rows(_SQL["add"], *scope, *told)
            await note(session, act)
        return _deletion(row)

    async def find(self, deletion: DeletionId) -> Deletion | None:
        row = await self._database.row(_SQL["find"], deletion)
        return None if row is None else _deletion(row)

    async def newest(self, tenant: TenantId | str, limit: int) -> tuple[Deletion, ...]:
        return tuple(map(_deletion, await self._database.rows(_SQL["newest"], tenant, limit)))

    async def unsigned(self, limit: int) -> tuple[Deletion, ...]:
        return tuple(map(_deletion, await self._database.rows(_SQL["unsigned"], limit)))

    async def end(self, deletion: DeletionId, receipt: str, signature: bytes, act: Act) -> bool:
        async with self._database.transaction() as session:
            if await session.row(_SQL["end"], deletion, receipt, signature, act.at) is None:
                return False
            await note(session, act)
        return True


class PostgresErasing:
    """What is in the scope of a deletion, for runners."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, now: float, limit: int) -> tuple[Deletion, ...]:
        return tuple(map(_deletion, await self._database.rows(_SQL["open"], now, limit)))

    # -- search of a user ----------------------------------------------------------------

    async def inputs(self, of: Deletion, after: str, limit: int) -> Sequence[tuple[str, Extent]]:
        rows = await self._database.rows(_SQL["inputs"], of.scope.tenant, of.until, after, limit)
        return [(row["owner"], Extent(object=row["object"], at=row["at"], size=row["size"])) for row in rows]

    async def batch_files(self, of: Deletion, after: str, limit: int) -> Sequence[tuple[str, ObjectId]]:
        rows = await self._database.rows(_SQL["batch_files"], of.scope.tenant, of.until, after, limit)
        return [(row["id"], ObjectId(row["object"])) for row in rows]

    async def texts(self, of: Deletion, after: str, limit: int) -> Sequence[SealedText]:
        rows = await self._database.rows(_SQL["texts"], of.scope.tenant, of.until, after, limit)
        return [msgspec.convert(dict(row), SealedText) for row in rows]

    async def forget_texts(self, of: Deletion, requests: Sequence[str]) -> None:
        await self._database.rows(_SQL["forget_texts"], of.scope.tenant, list(requests), of.until, of.id)

    async def found(self, of: Deletion, names: Sequence[str]) -> None:
        (row,) = await self._database.rows(_SQL["unattributed"], of.scope.tenant, of.until)
        await self._database.rows(_SQL["found"], of.id, list(names), row["files"])

    # -- erasure -------------------------------------------------------------------------

    async def stop(self, of: Deletion, now: float, limit: int) -> None:
        """Cancel what is open, so that nothing is added to it; queued ends at once, running within seconds."""
        await self._database.rows(_SQL["stop_batches"], *_scope(of), now)
        await self._database.rows(_SQL["forget_pauses"], *_scope(of))
        await self._database.rows(_SQL["forget_texts"], *_scope(of), of.id)
        for statement in _STOPS:
            while len(await self._database.rows(statement, *_scope(of), now, limit)) == limit:
                pass

    async def owned(self, kind: str, of: Deletion, limit: int) -> Sequence[Owned]:
        rows = await self._database.rows(_OWNED[kind], *_scope(of), limit)
        return [Owned(row["owner"], tuple(ObjectId(one) for one in row["objects"] if one)) for row in rows]

    async def forget(self, kind: str, of: Deletion, gone: Sequence[Owned]) -> bool:
        """Forget rows of which the objects are gone; False if some stay, since they still run."""
        owners = [one.owner for one in gone]
        if kind == "lines":
            return await self._forget_lines(of, owners, [name for one in gone for name in one.objects])
        await self._database.rows(_FORGETS[kind], of.id, of.scope.tenant, owners)
        return True

    async def swept(self, of: Deletion, now: float) -> bool:
        """Note the end, if nothing is left in the scope."""
        return bool(await self._database.rows(_SQL["swept"], *_scope(of), now, of.id))

    async def _forget_lines(self, of: Deletion, batches: list[str], objects: list[str]) -> bool:
        gone = LINES_AT_ONCE
        while gone == LINES_AT_ONCE:
            rows = await self._database.rows(_SQL["forget_lines"], of.id, batches, objects, LINES_AT_ONCE)
            gone = rows[0]["gone"]
        return bool(await self._database.rows(_SQL["forget_batches"], of.id, batches))


class HeardDeletions:
    """A gateway's part: the tenant's answers under idempotency keys are dropped, by each gateway that runs."""

    def __init__(self, forget: Callable[[TenantId], Awaitable[int]], started_at: float) -> None:
        self._forget, self._started_at = forget, started_at
        self._last = 0

    async def look(self, connection: asyncpg.Connection) -> None:
        try:
            for row in await connection.fetch(_SQL["unanswered"], self._last, self._started_at):
                dropped = await self._forget(TenantId(row["tenant"]))
                await connection.execute(_SQL["answers"], row["id"], dropped)
                self._last = row["id"]
        except StoreUnavailable as error:  # the answers' store: asked again at the next look
            logger().warning("answers_not_dropped", reason=error.message)


def _scope(of: Deletion) -> tuple[object, ...]:
    return of.scope.tenant, None if of.found is None else list(of.found), of.until


def _deletion(row: Record) -> Deletion:
    return Deletion(
        id=DeletionId(row["id"]),
        scope=Scope(TenantId(row["tenant"]), row["request"], row["user_mark"], row["before"]),
        found=None if row["found"] is None else tuple(row["found"]),
        counts=Counts(**{name: row[name] for name in Counts._fields}),
        **{name: row[name] for name in _PLAIN},
        receipt=row["receipt"],
        signature=row["signature"],
    )
