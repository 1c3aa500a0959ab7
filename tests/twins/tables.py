"""Published routing tables, in memory. Twin of `connectors.postgres.tables`."""

from penstock.domain.errors import Conflict
from penstock.domain.fleet.table import EMPTY, RoutingTable


class MemoryTables:
    """Tables in order of their numbers."""

    def __init__(self, *, keep: int = 100) -> None:
        """Keep the newest ``keep`` tables, and of older ones the last before each change of routes."""
        self._keep = keep
        self._tables: list[RoutingTable] = []

    async def latest(self) -> RoutingTable:
        """Return the newest table, or the empty one."""
        return self._tables[-1] if self._tables else EMPTY

    async def publish(self, table: RoutingTable) -> None:
        """Store it; ``Conflict`` where its number is not the newest."""
        if table.number <= (await self.latest()).number:
            raise Conflict(f"routing table {table.number} is not newer than the published one")
        self._tables.append(table)
        old, new = self._tables[: -self._keep], self._tables[-self._keep :]
        following = [*old[1:], *new[:1]]
        self._tables = [a for a, b in zip(old, following, strict=False) if _leads(a) != _leads(b)] + new

    async def numbered(self, number: int) -> RoutingTable | None:
        """Return a stored table."""
        return next((table for table in self._tables if table.number == number), None)

    async def history(self, limit: int) -> tuple[RoutingTable, ...]:
        """Return stored tables, newest first."""
        return tuple(self._tables[::-1][:limit])


def _leads(table: RoutingTable) -> object:
    return table.routes, table.autos
