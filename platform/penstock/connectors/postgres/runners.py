"""Runners' lives: an advisory lock on a connection of its own, which Postgres releases when that connection ends.

A heartbeat by the server's clock stands beside it, since a half-open connection keeps its lock. A direct connection is
needed: a pool in transaction mode loses the lock.
"""

from contextlib import suppress

import asyncpg

from penstock.connectors.postgres.database import CONNECT_WITHIN_S, Database, translated, way
from penstock.connectors.postgres.leadership import NAME_BYTES
from penstock.connectors.postgres.queries import load
from penstock.domain.clock import Clock, HeardClock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.jobs.job import JobState, TakenOver
from penstock.lateness.awake import timeout

_SQL = load("runners")
LEASE_S = 10.0
"""Seconds without a heartbeat after which a runner is dead, even if its lock is held: five slow confirmations."""
UNLOCKED_S = 0.5
"""Seconds for which a lock must be free: after the database's own recovery live runners lock again within them."""


class PostgresRunnerLife:
    """Each confirmation brings its clock the database's time of day."""

    def __init__(self, dsn: str, name: str, clock: HeardClock) -> None:
        self._way, self._name, self._clock = way(dsn), name[:NAME_BYTES], clock
        self._connection: asyncpg.Connection | None = None
        self._me: RunnerId | None = None

    async def confirm(self) -> RunnerId:
        try:
            with translated():
                async with timeout(CONNECT_WITHIN_S):
                    return await self._confirm()
        except StoreUnavailable:
            self._drop()
            raise

    async def resign(self) -> None:
        """End this life; jobs that it still holds are for others to take over."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.execute(_SQL["end"], self._me)
                await connection.close(timeout=CONNECT_WITHIN_S)

    async def _confirm(self) -> RunnerId:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(**self._way.named(self._name))
            if self._me is not None and not await self._connection.fetchval(_SQL["lock"], self._me):
                raise StoreUnavailable("this runner's former connection still holds its lock")
        if self._me is not None and await self._seen(self._connection, _SQL["confirm"], self._me):
            return self._me
        # The lock comes before the row is seen: a new runner without its lock would be taken for dead.
        async with self._connection.transaction():
            (self._me,) = await self._seen(self._connection, _SQL["begin"], self._name)
            await self._connection.fetchval(_SQL["lock"], self._me)
        return self._me

    async def _seen(self, connection: asyncpg.Connection, sql: str, who: RunnerId | str) -> list[RunnerId]:
        asked_at = self._clock.monotonic()
        rows = await connection.fetch(sql, who)
        for row in rows:
            self._clock.hear(row["seen_at"], asked_at)
        return [RunnerId(row["id"]) for row in rows]

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class PostgresRunners:
    """Looks for dead runners; it remembers since when a lock is free."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._free_since: dict[RunnerId, float] = {}

    async def take_over(self, me: RunnerId, now: float) -> TakenOver:
        rows = await self._database.rows(_SQL["others"], me, LEASE_S)
        moment = self._clock.monotonic()
        free = {row["id"] for row in rows if not row["is_locked"]}
        self._free_since = {runner: self._free_since.get(runner, moment) for runner in free}
        dead = [
            row["id"]
            for row in rows
            if row["is_late"] or moment - self._free_since.get(row["id"], moment) >= UNLOCKED_S
        ]
        jobs = dict.fromkeys(JobState, 0)
        for runner in dead:
            for row in await self._database.rows(_SQL["take_over"], runner, now):
                jobs[JobState(row["state"])] += row["jobs"]
        return TakenOver(
            runners=tuple(dead),
            requeued=jobs[JobState.QUEUED],
            dead_letters=jobs[JobState.FAILED],
            cancelled=jobs[JobState.CANCELLED],
        )
