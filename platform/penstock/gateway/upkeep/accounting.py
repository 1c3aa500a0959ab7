"""The gateway's accounting: renews holds, and delivers rows to the ledger."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.ledger import ForgivenSink, LedgerReader, LedgerRow, LedgerSink, Opening
from penstock.domain.tenancy.limits import SpentStore
from penstock.domain.tenancy.tenant import KeyRing
from penstock.domain.tokens import Usage
from penstock.filters.evidence import SealedText, TextSink
from penstock.filters.intervention import Intervention, InterventionSink
from penstock.gateway.admission.guarded import GuardedLimits
from penstock.gateway.admission.reservations import Reservations
from penstock.gateway.billing.asking import LiveCounts
from penstock.gateway.billing.closing import ForgivenEnds
from penstock.gateway.billing.orphans import Orphans
from penstock.gateway.safety.interventions import KeptTexts
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics


async def rebuild(reader: LedgerReader, store: SpentStore, ring: KeyRing, now: float) -> int:
    """Raise budget counters to the ledger's sums; return the number of budgets. Raises ``StoreUnavailable``.

    Counters are only raised, so requests may run meanwhile: a settlement without its row yet stays counted.
    """
    lines = await budget.read(reader, ring, now)
    await store.raise_spent({line.budget.meter: line.spent for line in lines})
    return len(lines)


Heir = Callable[[Sequence[LedgerRow]], Awaitable[None]]
Took = Callable[[Iterable[Opening]], Awaitable[Mapping[RequestId, Usage]]]
RECOUNT_S = 30.0
"""Seconds after which a process that counts for itself learns what others have spent of the same budgets."""
ROUND_S = 1.0
"""Interval of renewing holds, writing progress and delivering rows."""


class RowSpool(Protocol):
    def flush(self) -> None: ...

    def filtered(self, told: Intervention | SealedText) -> None: ...

    async def deliver(self, sink: "LedgerStore", heir: Heir | None = None, took: Took | None = None) -> int: ...


class LedgerStore(LedgerSink, LedgerReader, ForgivenSink, InterventionSink, TextSink, Protocol):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingParts:
    reservations: Reservations
    spool: RowSpool
    texts: KeptTexts
    meters: SpentStore
    forgiven: ForgivenEnds
    """Outcomes that error budgets exclude."""
    shared: GuardedLimits | None
    clock: Clock
    metrics: Metrics
    ledger: Callable[[], AbstractAsyncContextManager[LedgerStore]]


@dataclass(slots=True, kw_only=True)
class Accounting:
    parts: AccountingParts
    live: LiveCounts | None = None
    """Queries the token counts of unstreamed answers."""
    orphans: Orphans | None = None
    """Queries the usage of a dead gateway's requests."""
    _ring: KeyRing = field(default_factory=KeyRing)
    _wants_count: bool = False
    _counted_at: float = 0.0

    def keys_changed(self, ring: KeyRing) -> None:
        """Count budgets in the next round, since one may be new."""
        self._ring, self._wants_count = ring, True

    async def run(self) -> None:
        """Run separate loops, so that no hold expires if the database is slow."""
        async with self.parts.ledger() as ledger, asyncio.TaskGroup() as group:
            group.create_task(
                _forever(self._keep, _round_over if self.parts.shared is None else self.parts.shared.pause)
            )
            group.create_task(_forever(self._top_up, _half_over))
            group.create_task(self._deliver(ledger))

    async def _keep(self) -> None:
        if self.parts.shared is not None:
            await self.parts.shared.meet()
        await self.parts.reservations.keep()
        self.parts.spool.flush()  # here, so that a slow database does not delay what is known of running streams

    async def _top_up(self) -> None:
        if self.live is not None:
            await self.live.look()
        await self.parts.reservations.top_up()

    async def _deliver(self, ledger: LedgerStore) -> None:
        was_away, delivered_at = False, self.parts.metrics.gauge(names.LEDGER_DELIVERED_AT)
        delivered_at.set(self.parts.clock.now())
        try:
            while True:
                is_away = not await self._round(ledger)
                if not is_away:
                    delivered_at.set(self.parts.clock.now())
                if is_away != was_away:
                    logs.logger().warning("ledger_away" if is_away else "ledger_back")
                was_away = is_away
                await asyncio.sleep(ROUND_S)
        finally:
            await self._last(ledger)

    async def _round(self, ledger: LedgerStore) -> bool:
        try:
            took = self.orphans.took if self.orphans is not None else None
            await self.parts.spool.deliver(ledger, self.parts.reservations.inherit, took)
            await self._forgive(ledger)
            await self._count_the_past(ledger)
        except StoreUnavailable:
            return False
        except Exception as error:  # noqa: BLE001  a row that can't be delivered must not end the others, or the holds
            logs.logger().error("spool_failed", error_type=type(error).__name__, reason=str(error))
            return False
        return True

    async def _forgive(self, ledger: LedgerStore) -> None:
        ends = self.parts.forgiven.take()
        try:
            await ledger.forgive(ends)
        except StoreUnavailable:
            self.parts.forgiven.put_back(ends)
            raise

    async def _count_the_past(self, ledger: LedgerStore) -> None:
        """Count after a start, a new budget, or the store's data loss.

        Without a shared store also every ``RECOUNT_S``: a gateway and a jobs runner spend the same budgets, and each
        overshoots by at most the other's spend meanwhile.
        """
        now, shared = self.parts.clock.monotonic(), self.parts.shared
        is_old = 0.0 < self._counted_at <= now - RECOUNT_S
        is_due = is_old if shared is None else shared.wants_count
        if not (self._wants_count or is_due):
            return
        self._wants_count, self._counted_at, ring = False, now, self._ring
        if shared is not None:
            shared.counting()
        try:
            await self.parts.reservations.flush()  # what is settled after the ledger was read would be counted twice
            await rebuild(ledger, self.parts.meters, ring, self.parts.clock.now())
        except BaseException:
            self._wants_count = True
            raise
        if shared is not None:
            shared.counted()

    async def _last(self, ledger: LedgerStore) -> None:
        with suppress(StoreUnavailable, OSError, asyncio.CancelledError):
            await self.parts.reservations.flush()
            await self.parts.spool.deliver(ledger)
            await self._forgive(ledger)


async def _round_over() -> None:
    await asyncio.sleep(ROUND_S)


async def _half_over() -> None:
    await asyncio.sleep(ROUND_S / 2)


async def _forever(step: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]) -> None:
    """Repeat even after an error, which must not end the renewal of holds."""
    while True:
        try:
            await step()
        except Exception as error:  # noqa: BLE001  see above
            logs.logger().error("accounting_round_failed", error_type=type(error).__name__, reason=str(error))
        await pause()
