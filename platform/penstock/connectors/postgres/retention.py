"""Expired single jobs, by their rows; lines of batches and stored responses go with their owners."""

from collections.abc import Sequence

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import Expired

_SQL = load("retention")


class PostgresExpiringJobs:
    kind = "job"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, now: float, limit: int) -> tuple[Expired, ...]:
        rows = await self._database.rows(_SQL["expired"], now, limit)
        return tuple(Expired(row["name"], tuple(ObjectId(one) for one in row["objects"] if one)) for row in rows)

    async def forget(self, owners: Sequence[str], now: float) -> None:
        await self._database.rows(_SQL["forget"], list(owners), now)

    async def known(self, owners: Sequence[str]) -> frozenset[str]:
        return frozenset(row["name"] for row in await self._database.rows(_SQL["known"], list(owners)))


class PostgresExpiringTexts:
    """Texts of matches, by their requests: the rows have the sealed bytes, so no object goes first."""

    kind = "match"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, now: float, limit: int) -> tuple[Expired, ...]:
        return tuple(
            Expired(row["request"], ()) for row in await self._database.rows(_SQL["expired_texts"], now, limit)
        )

    async def forget(self, owners: Sequence[str], now: float) -> None:
        await self._database.rows(_SQL["forget_texts"], list(owners), now)

    async def known(self, owners: Sequence[str]) -> frozenset[str]:
        return frozenset(owners)


class PostgresOpenBatches:
    """A batch clears its own objects once it has ended; what a late runner writes after that has no owner."""

    kind = "batch"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def expired(self, now: float, limit: int) -> tuple[Expired, ...]:
        del now, limit
        return ()

    async def forget(self, owners: Sequence[str], now: float) -> None: ...

    async def known(self, owners: Sequence[str]) -> frozenset[str]:
        return frozenset(row["id"] for row in await self._database.rows(_SQL["known_batches"], list(owners)))
