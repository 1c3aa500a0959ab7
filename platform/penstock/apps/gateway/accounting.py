"""The gateway's limits and ledger by the settings."""

import secrets
from collections.abc import Callable
from functools import partial

from penstock.connectors.memory.limits import MemoryLimits
from penstock.connectors.postgres.database import lone
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.redis.limits import RedisLimits
from penstock.connectors.redis.wire import Wire
from penstock.connectors.spool.spool import OnRefused, Row, Spool
from penstock.domain.clock import Clock
from penstock.domain.tenancy.limits import LimitStore
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.guarded import Alone, GuardedLimits
from penstock.gateway.admission.outage import when_away
from penstock.gateway.admission.reservations import Journal, Reservations, Spawn
from penstock.gateway.billing.closing import ForgivenEnds
from penstock.gateway.safety.interventions import KeptTexts, TextDropped, dropping
from penstock.gateway.upkeep.accounting import AccountingParts
from penstock.settings.pipeline import PipelineSettings
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics

OVERDUE_S = 60.0
"""Seconds after a request's deadline after which its reservation counts as leaked."""
NAME_BYTES = 6


def accounting_parts(
    settings: PipelineSettings,
    dsn: str,
    clock: Clock,
    spawn: Spawn,
    metrics: Metrics,
    journal: Callable[[Journal], Journal] | None = None,
) -> AccountingParts:
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
    reservations = Reservations(
        store=store,
        journal=journal(spool) if journal else spool,
        expectation=OutputExpectation(),
        clock=clock,
        spawn=spawn,
    )
    overdue = metrics.gauge(names.RESERVATIONS_OVERDUE)
    overdue.set_function(lambda: reservations.overdue(OVERDUE_S))
    metrics.gauge(names.SPOOL_FULL).set_function(lambda: float(spool.is_full))
    drop = dropping(metrics)
    metrics.gauge(names.DISK_USED_RATIO).set_function(spool.used_ratio)
    return AccountingParts(
        reservations=reservations,
        spool=spool,
        texts=KeptTexts(spool.filtered, spawn, drop),
        meters=meters,
        forgiven=ForgivenEnds(clock),
        shared=shared,
        clock=clock,
        metrics=metrics,
        ledger=partial(lone, dsn, partial(PostgresLedger, drop=partial(drop, TextDropped.FULL))),
    )


def _refused(metrics: Metrics) -> OnRefused:
    counted, log = metrics.counter(names.LEDGER_ROWS_REFUSED), logs.logger()

    def report(row: Row, why: str) -> None:
        counted.inc()
        log.error("ledger_row_refused", request_id=row.request, tenant=row.tenant, reason=why)

    return report
