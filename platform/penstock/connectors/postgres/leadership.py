"""Leader election by an advisory lock, which Postgres releases when its holder's connection ends.

A confirmation is one round trip on the locking connection: so a leader that was disconnected notices before it decides.
"""

from contextlib import suppress

import asyncpg

from penstock.connectors.postgres.database import CONNECT_WITHIN_S, Database, translated, way
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import StoreUnavailable
from penstock.lateness.awake import timeout

_SQL = load("leadership")
NAME_BYTES = 63
"""Bytes above which Postgres truncates ``application_name``."""


async def leader(database: Database) -> str:
    """Return the leader's name; empty without one.

    A candidate's own connection never runs the query: cancelled there, it would cost the candidate the lead.
    """
    row = await database.row(_SQL["holder"])
    return str(row["name"]) if row else ""


class PostgresLeadership:
    def __init__(self, dsn: str, name: str) -> None:
        self._way, self._name = way(dsn), name[:NAME_BYTES]
        self._connection: asyncpg.Connection | None = None
        self._holds = False

    async def is_mine(self) -> bool:
        try:
            with translated():
                async with timeout(CONNECT_WITHIN_S):
                    return await self._ask()
        except StoreUnavailable:
            self._drop()
            raise

    async def resign(self) -> None:
        connection, self._connection, self._holds = self._connection, None, False
        if connection is not None:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=CONNECT_WITHIN_S)

    async def _ask(self) -> bool:
        if self._connection is None or self._connection.is_closed():
            self._holds = False
            self._connection = await asyncpg.connect(**self._way.named(self._name))
        if self._holds:
            await self._connection.execute(_SQL["still_here"])
        else:
            self._holds = bool(await self._connection.fetchval(_SQL["take"]))
        return self._holds

    def _drop(self) -> None:
        connection, self._connection, self._holds = self._connection, None, False
        if connection is not None:
            connection.terminate()
