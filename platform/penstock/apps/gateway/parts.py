"""The composition of the request pipeline, with the sources and loops beside it: a gateway's, and a jobs runner's."""

import os
import random
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from penstock.apps import keys, peers, slos
from penstock.apps.gateway import reading, stages
from penstock.apps.gateway.accounting import accounting_parts
from penstock.apps.gateway.shared import Shared, recording
from penstock.apps.gateway.stages import Telling
from penstock.apps.keys import Keys
from penstock.apps.stores import database_dsn
from penstock.connectors.http.client import HttpClient, PoolLimits
from penstock.connectors.offload.pool import OffloadPool
from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.database import lone
from penstock.connectors.postgres.sources import KeySource, PackSource, TableSource
from penstock.domain.clock import Clock, SystemClock
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.serving.transport import KEPT_ALIVE_S
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.gateway.admission.reservations import Journal
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.dispatch.ticket_keys import TicketKeys
from penstock.gateway.evidence.counting import Arms
from penstock.gateway.holding import Asked, WakeDemand
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.pipeline import Pipeline
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.records.requests import RequestLedger
from penstock.gateway.records.traces import RequestTraces, otlp
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import sticky_key
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.upkeep.accounting import Accounting
from penstock.gateway.upkeep.background import Background
from penstock.gateway.upkeep.evidence import Evidence, shared_by
from penstock.gateway.upkeep.health import HealthWatch
from penstock.gateway.upkeep.news import News
from penstock.gateway.upkeep.probes import Probes, expositions
from penstock.intake.connection import Drain
from penstock.lateness.awake import awake_time
from penstock.settings.pipeline import PipelineSettings
from penstock.supervision import exposition
from penstock.supervision.exposition import Exposition, openmetrics
from penstock.telemetry import names, tenants
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.pages import OPENMETRICS, Page
from penstock.tls.identity import Role
from penstock.tls.mutual import show_expiry

BILLS_WITHIN_S = 3.0
"""Seconds that an ending process waits for workers' usage of its last requests."""
PROBING = PoolLimits(max_idle=2, max_idle_s=KEPT_ALIVE_S - 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The pipeline of one process, without listeners."""

    shared: Shared
    pipeline: Pipeline
    ledger: RequestLedger
    probes: Probes
    table_source: TableSource
    key_source: KeySource
    pack_source: PackSource
    preprocessor: PromptPreprocessor
    accounting: Accounting
    router: WorkerRouter
    news: News
    health_watch: HealthWatch
    evidence: Evidence
    telling: Telling
    traces: RequestTraces | None
    exposition: Exposition
    pages: Mapping[str, Page]
    """Pages of the private listener beside ``exposition``."""
    background: Background

    @property
    def missing(self) -> str:
        return self.probes.missing()

    async def exchange(self, found: Keys) -> None:
        self.probes.keys.exchange(peppers=found.peppers, salt_key=derive(found.platform[0], Purpose.CACHE_SALT))
        self.shared.ticket_keys.exchange(found.platform)
        self.shared.ticket_keys.learn_from(self.shared.table.view.table)

    def keep(self) -> None:
        """Start the loops that run beside the pipeline for as long as the process."""
        settings, keep, recording = self.shared.settings, self.background.keep, self.shared.recording
        address, run = settings.metrics_address, settings.paths.run
        awake_time().on_look = partial(_late, self.shared)
        keep("keys", lambda: self.key_source.run(self.news.keys_came))
        keep("packs", lambda: self.pack_source.run(self.news.packs_came))
        keep("table", lambda: self.table_source.run(self.news.table_came))
        keep("metrics", lambda: exposition.serve(address, run, self.exposition, self.pages))
        keep("accounting", self.accounting.run)
        keep("records", recording.folder.run)
        keep("refusals", recording.crowd.run)
        keep("evidence", self.evidence.run)
        keep("health", self.health_watch.run)
        keep("prober", self.health_watch.prober.run)
        keep("platform_keys", lambda: keys.follow(settings, self.exchange))

    async def close(self) -> None:
        await self.background.end(BILLS_WITHIN_S)  # they close rows, which the last delivery takes along
        await self.background.stop()
        for client in (self.shared.client, self.shared.probing):
            await client.close()
        self.preprocessor.close()
        await self.shared.offload.close()
        if self.traces is not None:
            self.traces.close()


def _late(shared: Shared, lag_s: float) -> None:
    shared.metrics.histogram(names.LOOP_LAG_SECONDS).observe(lag_s)
    shared.demand.late(lag_s)


def compose(
    settings: PipelineSettings,
    found: Keys,
    role: Role = Role.GATEWAY,
    journal: Callable[[Journal], Journal] | None = None,
    clock: Clock = SystemClock(),
) -> Parts:
    """Return the pipeline's parts; ``journal`` wraps the spool, to which ledger rows are written."""
    (metrics, background), dsn = _counted(), database_dsn(settings)
    client, probing = _clients(settings, role, clock, metrics)
    newest, ticket_keys = found.platform[0], TicketKeys(found.platform)
    asked = Asked(slos.load(), clock.monotonic)
    shared = Shared(
        settings=settings,
        keys=found,
        ticket_keys=ticket_keys,
        clock=clock,
        metrics=metrics,
        chance=random.Random(),
        table=CurrentTable(),
        client=client,
        probing=probing,
        accounting=accounting_parts(settings, dsn, clock, background.spawn, metrics, journal),
        recording=recording(settings, clock, metrics),
        spawn=background.spawn,
        offload=_offload(settings),
        demand=WakeDemand(gateway=_name(settings), clock=clock, counted=asked.counted, is_runner=role is Role.RUNNER),
        asked=asked,
    )
    keyring = Keyring(peppers=found.peppers, salt_key=derive(newest, Purpose.CACHE_SALT), now=clock.now)
    shared.table.on_change(lambda _, after: ticket_keys.learn_from(after.table))
    table_source = TableSource(dsn, settings.paths.run / "gateway/table.json", clock=clock)
    traces = RequestTraces(otlp(settings.otlp_endpoint), clock.now, clock.monotonic) if settings.otlp_endpoint else None
    told = _evidence(shared.table, clock, dsn)
    ledger = _ledger(shared, traces, newest, told)
    shared.table.on_change(lambda _, after: ledger.expect(*after.table.versions))
    preprocessor, preparing, reader = stages.preprocessing(shared)
    pipeline, router, health_watch, accounting = stages.pipeline(shared, preparing, reader, ledger, told)
    probes = _probes(shared, keyring, health_watch)
    text, as_openmetrics = expositions(metrics, table_source)
    return Parts(
        shared=shared,
        pipeline=pipeline,
        ledger=ledger,
        probes=probes,
        table_source=table_source,
        key_source=KeySource(dsn, settings.paths.run / "gateway/keys.json", clock=clock),
        pack_source=PackSource(dsn, settings.paths.run / "gateway/packs.json", clock=clock),
        preprocessor=preprocessor,
        accounting=accounting,
        router=router,
        news=_news(shared, keyring, accounting, health_watch, partial(_warm, background, preprocessor, shared.offload)),
        health_watch=health_watch,
        evidence=told,
        telling=Telling(shared.demand, dsn),
        traces=traces,
        exposition=text,
        pages={**probes.pages, OPENMETRICS: openmetrics(as_openmetrics)},
        background=background,
    )


def _probes(shared: Shared, keyring: Keyring, watch: HealthWatch) -> Probes:
    return Probes(
        table=shared.table,
        keys=keyring,
        packs=shared.packs,
        breakers=watch.breakers,
        clock=shared.clock,
        drain=Drain(),
    )


def _news(
    shared: Shared, keyring: Keyring, accounting: Accounting, watch: HealthWatch, warm: Callable[[RoutingTable], None]
) -> News:
    return News(
        table=shared.table,
        keys=keyring,
        packs=shared.packs,
        accounting=accounting,
        running=watch.running,
        clock=shared.clock,
        metrics=shared.metrics,
        warm=warm,
    )


def _warm(background: Background, preprocessor: PromptPreprocessor, offload: OffloadPool, table: RoutingTable) -> None:
    background.spawn(preprocessor.warm(table.versions))
    background.spawn(offload.warm())


def _name(settings: PipelineSettings) -> str:
    return settings.gateway_name or f"{socket.gethostname()}:{os.getpid()}"


def _evidence(table: CurrentTable, clock: Clock, dsn: str) -> Evidence:
    arms = Arms(
        clock,
        f"{socket.gethostname()}:{os.getpid()}",
        secrets.token_hex(6),
        sticky=sticky_key,
        shared=lambda name: shared_by(table, name),
        is_alias=lambda name: name in table.view.routes,
    )
    return Evidence(arms, partial(lone, dsn, PostgresArms))


def _counted() -> tuple[Metrics, Background]:
    metrics = Metrics().tell_start()
    failures = metrics.counter(names.BACKGROUND_FAILURES)
    return metrics, Background(lambda task: failures.labels(task=task).inc())


def _ledger(shared: Shared, traces: RequestTraces | None, newest: bytes, told: Evidence) -> RequestLedger:
    traced, labels = traces.finished if traces else None, tenants.labels(*shared.settings.tenant_names, newest)
    keep, count, asked = shared.recording.records.ended, told.arms.ended, shared.asked.ended

    def ended(call: Call, answer: Answer) -> None:
        if call.copy is None:
            keep(call, answer)
        count(call, answer)
        asked(call, answer)

    return RequestLedger(shared.metrics, shared.clock.monotonic, traced, labels, ended)


def _clients(settings: PipelineSettings, role: Role, clock: Clock, metrics: Metrics) -> tuple[HttpClient, HttpClient]:
    """Return the clients for requests and for the platform's probes."""
    mutual = peers.mutual(settings, role, clock)
    if mutual:
        show_expiry(mutual.now, metrics)
    tls = partial(mutual.client, Role.WORKER) if mutual else None
    return HttpClient(clock=clock.monotonic, tls=tls), HttpClient(clock=clock.monotonic, limits=PROBING, tls=tls)


def _offload(settings: PipelineSettings) -> OffloadPool:
    return OffloadPool(reading.program(settings), processes=settings.read_processes, patience_s=reading.PATIENCE_S)
