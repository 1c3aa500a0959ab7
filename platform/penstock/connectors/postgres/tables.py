"""Published routing tables in Postgres."""

import msgspec

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict
from penstock.domain.fleet.table import EMPTY, RoutingTable

_SQL = load("tables")
_TABLE = msgspec.json.Decoder(RoutingTable)
_PRUNE_EVERY = 20


class PostgresTables:
    """Keeps the newest ``keep`` tables, and the last one before each change of routes; a trigger notifies gateways
    (``penstock_table``).
    """

    def __init__(self, database: Database, *, keep: int = 100) -> None:
        self._database = database
        self._keep = keep
        self._latest = EMPTY

    async def latest(self) -> RoutingTable:
        """The empty one without any; decoded only if newer than the last one decoded."""
        row = await self._database.row(_SQL["latest"], self._latest.number)
        if row is not None:
            self._latest = _TABLE.decode(row["body"])
        return self._latest

    async def publish(self, table: RoutingTable) -> None:
        body = msgspec.json.encode(table).decode()
        async with self._database.transaction() as session:
            if await session.row(_SQL["publish"], table.number, body, table.made_at) is None:
                raise Conflict(f"routing table {table.number} is not newer than the published one")
        if self._database.acting is None:  # an act may yet be undone
            self._latest = table
        if table.number % _PRUNE_EVERY == 0:
            await self._database.rows(_SQL["prune"], self._keep)

    async def numbered(self, number: int) -> RoutingTable | None:
        row = await self._database.row(_SQL["numbered"], number)
        return None if row is None else _TABLE.decode(row["body"])

    async def history(self, limit: int) -> tuple[RoutingTable, ...]:
        return tuple(_TABLE.decode(row["body"]) for row in await self._database.rows(_SQL["history"], limit))
