"""The gateway's accounting: limits, ledger, and the loops that keep both, put together."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.apps.settings import GatewaySettings
from penstock.connectors.memory.limits import MemoryLimits
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.redis.limits import RedisLimits
from penstock.connectors.redis.wire import Wire
from penstock.connectors.spool.spool import OnRefused, Spool
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.limits import LimitStore, Measure, SpentStore
from penstock.domain.tenancy.tenant import KeyRing
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.guarded import Alone, GuardedLimits
from penstock.gateway.admission.outage import POLICY, WhenAway
from penstock.gateway.admission.rebuild import rebuild
from penstock.gateway.admission.reservations import Reservations, Spawn
from penstock.gateway.billing import ForgivenEnds, LiveCounts, Orphans
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics

ROUND_S = 1.0
"""How often holds are renewed, progress is written and rows are delivered."""
OVERDUE_S = 60.0
"""A reservation that is held so long after its request's deadline is nobody's any more."""
NAME_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingParts:
    """Limits and ledger; ``shared`` is there if gateways share their limits."""

    reservations: Reservations
    spool: Spool
    meters: SpentStore
    forgiven: ForgivenEnds
    """What error budgets are not to count."""
    shared: GuardedLimits | None
    clock: Clock
    metrics: Metrics
    dsn: str


@dataclass(slots=True, kw_only=True)
class Accounting:
    """Keeps both, for as long as the process runs."""

    parts: AccountingParts
    live: LiveCounts | None = None
    """Tells how far whole answers are."""
    orphans: Orphans | None = None
    """Tells the usage of a dead gateway's requests."""
    _ring: KeyRing = field(default_factory=KeyRing)
    _wants_count: bool = False

    def keys_changed(self, ring: KeyRing) -> None:
        """Budgets may be new, or this process: what the ledger holds is counted by the next round."""
        self._ring, self._wants_count = ring, True

    async def run(self) -> None:
        """Keep holds, and deliver rows; each at its own pace, so that a slow database lets no hold lapse."""
        async with Database(self.parts.dsn, max_connections=1) as database, asyncio.TaskGroup() as group:
            group.create_task(
                _forever(self._keep, _round_over if self.parts.shared is None else self.parts.shared.pause)
            )
            group.create_task(_forever(self._top_up, _half_over))
            group.create_task(self._deliver(PostgresLedger(database)))

    async def _keep(self) -> None:
        if self.parts.shared is not None:
            await self.parts.shared.meet()
        await self.parts.reservations.keep()
        self.parts.spool.flush()  # here, so that a slow database does not delay what is known of running streams

    async def _top_up(self) -> None:
        """Learn how far whole answers are, and reserve more for whatever runs, before it has outgrown what it has."""
        if self.live is not None:
            await self.live.look()
        await self.parts.reservations.top_up()

    async def _deliver(self, ledger: PostgresLedger) -> None:
        """Deliver rows; a database that is away is tried again by the next round."""
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

    async def _round(self, ledger: PostgresLedger) -> bool:
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

    async def _forgive(self, ledger: PostgresLedger) -> None:
        """Tell what error budgets leave out; what the ledger does not take for what it says is not told again."""
        ends = self.parts.forgiven.take()
        try:
            await ledger.forgive(ends)
        except StoreUnavailable:
            self.parts.forgiven.put_back(ends)
            raise

    async def _count_the_past(self, ledger: PostgresLedger) -> None:
        """Raise budget counters to what was spent before this process, a new budget, or the store's loss of memory."""
        forgot = self.parts.shared is not None and self.parts.shared.wants_count
        if not (self._wants_count or forgot):
            return
        self._wants_count, ring = False, self._ring
        if self.parts.shared is not None:
            self.parts.shared.counting()
        try:
            await self.parts.reservations.flush()  # what is settled after the ledger was read would be counted twice
            await rebuild(ledger, self.parts.meters, ring, self.parts.clock.now())
        except BaseException:
            self._wants_count = True
            raise
        if self.parts.shared is not None:
            self.parts.shared.counted()

    async def _last(self, ledger: PostgresLedger) -> None:
        """Deliver what the end of the process leaves; what stays on disk is the next one's."""
        with suppress(StoreUnavailable, OSError, asyncio.CancelledError):
            await self.parts.reservations.flush()
            await self.parts.spool.deliver(ledger)
            await self._forgive(ledger)


async def _round_over() -> None:
    await asyncio.sleep(ROUND_S)


async def _half_over() -> None:
    await asyncio.sleep(ROUND_S / 2)


async def _forever(step: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]) -> None:
    """Take a step each round; a bug in one must not end the keeping of holds."""
    while True:
        try:
            await step()
        except Exception as error:  # noqa: BLE001  see above
            logs.logger().error("accounting_round_failed", error_type=type(error).__name__, reason=str(error))
        await pause()


def accounting_parts(
    settings: GatewaySettings, dsn: str, clock: Clock, spawn: Spawn, metrics: Metrics
) -> AccountingParts:
    """Put it together; nothing connects yet."""
    spool = Spool(settings.paths.spool, clock, _refused(metrics))
    meters: RedisLimits | MemoryLimits = MemoryLimits(clock)
    shared: GuardedLimits | None = None
    if settings.limits_url:
        meters = redis = RedisLimits(Wire(settings.limits_address))
        alone = Alone(
            me=secrets.token_hex(NAME_BYTES),
            store=lambda: MemoryLimits(clock),
            policy=when_away(settings.limits_when_away),
            gateways=settings.gateways,
        )
        shared = GuardedLimits(redis, alone, clock, metrics)
    store: LimitStore = shared or meters
    reservations = Reservations(store=store, journal=spool, expectation=OutputExpectation(), clock=clock, spawn=spawn)
    overdue = metrics.gauge(names.RESERVATIONS_OVERDUE)
    overdue.set_function(lambda: reservations.overdue(OVERDUE_S))
    return AccountingParts(
        reservations=reservations,
        spool=spool,
        meters=meters,
        forgiven=ForgivenEnds(clock),
        shared=shared,
        clock=clock,
        metrics=metrics,
        dsn=dsn,
    )


def _refused(metrics: Metrics) -> OnRefused:
    """Return what reports a row that the ledger does not take: the bill of its tenant lacks it."""
    counted, log = metrics.counter(names.LEDGER_ROWS_REFUSED), logs.logger()

    def report(row: LedgerRow, why: str) -> None:
        counted.inc()
        log.error("ledger_row_refused", request_id=row.request, tenant=row.tenant, reason=why)

    return report


def when_away(text: str) -> Mapping[Measure, WhenAway]:
    """Return what becomes of each limit while the store is away: the defaults, and ``spend=share,tokens=open``."""
    policy = dict(POLICY)
    for part in filter(None, (part.strip() for part in text.split(","))):
        measure, _, what = part.partition("=")
        if measure not in set(Measure) or what not in set(WhenAway):
            measures, whats = ", ".join(Measure), ", ".join(WhenAway)
            raise CommandError(f"PENSTOCK_LIMITS_WHEN_AWAY: {part!r}", do=f"Say one of {measures} = one of {whats}.")
        policy[Measure(measure)] = WhenAway(what)
    return policy
