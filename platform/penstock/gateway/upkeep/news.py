"""Applies new routing tables, API keys and safety packs, and ends the requests of keys that are no longer valid."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.domain.clock import Clock
from penstock.domain.errors import TableRefused, Unauthenticated
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.tenancy.tenant import KeyRing
from penstock.filters.book import Book, CurrentPacks
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.lease import Lease
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.upkeep.accounting import Accounting
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics

REVOKED_WITHIN_S = 1.0
"""Seconds between checks of running requests' keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    table: CurrentTable
    keys: Keyring
    packs: CurrentPacks
    accounting: Accounting
    running: Mapping[Lease, Admitted]
    clock: Clock
    metrics: Metrics
    warm: Callable[[RoutingTable], None]
    """Prepares a new table's versions in the background."""

    async def keys_came(self, ring: KeyRing) -> None:
        self.keys.replace(ring)
        self.accounting.keys_changed(ring)

    async def packs_came(self, book: Book) -> None:
        self.packs.replace(book)

    async def table_came(self, table: RoutingTable) -> None:
        """Apply in steps that yield to the event loop; an older table is refused (I3)."""
        try:
            for _ in self.table.steps(table, self.clock.monotonic()):
                await asyncio.sleep(0)
        except TableRefused as error:
            self.metrics.counter(names.TABLES_REFUSED).inc()
            logs.logger().error("table_refused", number=table.number, reason=error.message)
            return
        self.metrics.gauge(names.TABLE_NUMBER).set(self.table.number)
        self.warm(table)

    async def end_revoked(self) -> None:
        while True:
            await asyncio.sleep(REVOKED_WITHIN_S)
            for lease, call in list(self.running.items()):
                is_valid = call.principal.is_inside or self.keys.is_valid(call.principal.key)
                if lease.end_early is not None and not is_valid:
                    lease.end_early(Unauthenticated("this API key was revoked, or has expired"))
