"""The gateway's money: limits, ledger, and the loop that keeps both, put together."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from penstock.adapters.memory.limits import MemoryLimits
from penstock.adapters.postgres.database import Database
from penstock.adapters.postgres.ledger import PostgresLedger
from penstock.adapters.redis.limits import RedisLimits
from penstock.adapters.redis.wire import Wire
from penstock.adapters.spool.spool import Spool
from penstock.apps.settings import Settings
from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.limits import SpentStore
from penstock.domain.tenant import KeyRing
from penstock.gateway.admission.cashier import Cashier, Spawn
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.rebuild import rebuild
from penstock.telemetry import logs

ROUND_S = 1.0
"""How often holds are renewed, progress is written and rows are delivered."""


@dataclass(slots=True, kw_only=True)
class Money:
    """What the process looks after."""

    cashier: Cashier
    spool: Spool
    meters: SpentStore
    clock: Clock
    dsn: str
    _new_keys: KeyRing | None = None

    def keys_changed(self, ring: KeyRing) -> None:
        """Budgets may be new, or this process: what the ledger holds is counted by the next round."""
        self._new_keys = ring

    async def run(self) -> None:
        """Keep holds and the spool, deliver rows; a store that is away is tried again by the next round."""
        async with Database(self.dsn, max_connections=1) as database:
            ledger, was_away = PostgresLedger(database), False
            try:
                while True:
                    is_away = not await self._round(ledger)
                    if is_away != was_away:
                        logs.logger().warning("ledger_away" if is_away else "ledger_back")
                    was_away = is_away
                    await asyncio.sleep(ROUND_S)
            finally:
                await self._last(ledger)

    async def _round(self, ledger: PostgresLedger) -> bool:
        await self.cashier.keep()
        try:
            self.spool.flush()
            await self.spool.deliver(ledger)
            await self._count_the_past(ledger)
        except StoreUnavailable:
            return False
        except OSError as error:
            logs.logger().error("spool_failed", error_type=type(error).__name__, reason=str(error))
            return False
        return True

    async def _count_the_past(self, ledger: PostgresLedger) -> None:
        """Raise budget counters to what was spent before this process, or before the budget was set."""
        ring = self._new_keys
        if ring is not None:
            await rebuild(ledger, self.meters, ring, self.clock.now())
            self._new_keys = None if self._new_keys is ring else self._new_keys

    async def _last(self, ledger: PostgresLedger) -> None:
        """Deliver what the end of the process leaves; what stays on disk is the next one's."""
        with suppress(StoreUnavailable, OSError, asyncio.CancelledError):
            await self.cashier.flush()
            await self.spool.deliver(ledger)


def money(settings: Settings, dsn: str, clock: Clock, spawn: Spawn) -> Money:
    """Put it together; nothing connects yet."""
    local, spool = MemoryLimits(clock), Spool(settings.paths.spool, clock)
    store = RedisLimits(Wire(settings.limits_url)) if settings.limits_url else local
    cashier = Cashier(
        store=store,
        local=local,
        journal=spool,
        expectation=OutputExpectation(),
        clock=clock,
        spawn=spawn,
    )
    return Money(cashier=cashier, spool=spool, meters=store, clock=clock, dsn=dsn)
