"""The gateway's composition root: packages get their settings, stages their connectors."""

import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial

from penstock.apps import peers, slos
from penstock.apps.gateway import reading, telling
from penstock.apps.gateway.accounting import accounting_parts
from penstock.apps.gateway.front import Front, front
from penstock.apps.gateway.holding import Telling, holding
from penstock.apps.gateway.shadowing import Copying, copying
from penstock.apps.gateway.shared import RecordParts, Shared, recording
from penstock.apps.keys import Keys
from penstock.apps.settings.processes import GatewaySettings
from penstock.apps.stores import database_dsn, open_store
from penstock.connectors.http.client import HttpClient, PoolLimits
from penstock.connectors.offload.pool import OffloadPool
from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.sources import KeySource, TableSource
from penstock.domain.clock import Clock, SystemClock
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.serving.auto import MOST_AUTOS, MOST_RULES
from penstock.domain.serving.slo import Indicator
from penstock.domain.serving.transport import KEPT_ALIVE_S
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.gateway.admission.controller import AdmissionController
from penstock.gateway.admission.degrader import Crowd, PressureDegrader
from penstock.gateway.billing.asking import LiveCounts, UsageClient
from penstock.gateway.billing.closing import Closing
from penstock.gateway.billing.orphans import Orphans
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.choosing import Choosing
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.dispatcher import DispatchSettings, WorkerDispatcher
from penstock.gateway.dispatch.prober import Prober, ProberSettings
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.dispatch.ticket_keys import TicketKeys
from penstock.gateway.evidence.counting import Arms
from penstock.gateway.holding import Asked, WakeDemand
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.listener.errors import render
from penstock.gateway.pipeline import Pipeline
from penstock.gateway.preprocess.offload import OffloadedPreprocessor
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import Detokenizer, TokenizerCache
from penstock.gateway.records.requests import RequestLedger
from penstock.gateway.records.traces import RequestTraces
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver, sticky_key
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.router_settings import RouterSettings
from penstock.gateway.streaming.relays import RelaySettings, StreamingRelays, Wants
from penstock.gateway.upkeep import health
from penstock.gateway.upkeep.accounting import Accounting
from penstock.gateway.upkeep.background import Background
from penstock.gateway.upkeep.evidence import Evidence, shared_by
from penstock.gateway.upkeep.health import HealthWatch
from penstock.gateway.upkeep.news import News
from penstock.gateway.upkeep.probes import Probes
from penstock.intake.connection import Drain
from penstock.intake.server import EdgeServer
from penstock.lateness.awake import AwakeClock
from penstock.supervision.exposition import Exposition
from penstock.telemetry import names, tenants
from penstock.telemetry.metrics import Counted, Metrics
from penstock.telemetry.pages import Page
from penstock.tls.identity import Role
from penstock.tls.mutual import show_expiry
from penstock.worker.gate.queueing.fair_queue import Bounds

MOST_MODELS = 1024
MOST_WAITING = 4 * Bounds().total_requests
"""Waiting requests at a worker above which it is skipped. Far above the gate's own bounds, which consider priority: a
refusal here would affect all callers equally.
"""
PROBING = PoolLimits(max_idle=2, max_idle_s=KEPT_ALIVE_S - 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    front: Front
    table: CurrentTable
    keys: Keyring
    table_source: TableSource
    key_source: KeySource
    ticket_keys: TicketKeys
    clients: tuple[HttpClient, ...]
    preprocessor: PromptPreprocessor
    offload: OffloadPool
    accounting: Accounting
    news: News
    health_watch: HealthWatch
    recording: RecordParts
    evidence: Evidence
    telling: Telling
    traces: RequestTraces | None
    metrics: Metrics
    exposition: Exposition
    clock: SystemClock
    background: Background
    pages: Mapping[str, Page]
    """Pages of the private listener beside ``exposition``."""

    @property
    def server(self) -> EdgeServer:
        return self.front.server

    async def exchange(self, found: Keys) -> None:
        self.keys.exchange(peppers=found.peppers, salt_key=derive(found.platform[0], Purpose.CACHE_SALT))
        self.ticket_keys.exchange(found.platform)
        self.ticket_keys.learn_from(self.table.view.table)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        self.preprocessor.close()
        await self.offload.close()
        if self.traces is not None:
            self.traces.close()


def compose(settings: GatewaySettings, found: Keys) -> Gateway:
    metrics, background = _counted()
    clock, dsn = SystemClock(), database_dsn(settings)
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
        client=_client(settings, clock, metrics),
        probing=_client(settings, clock, metrics, PROBING),
        accounting=accounting_parts(settings, dsn, clock, background.spawn, metrics),
        recording=recording(settings, clock, metrics),
        spawn=background.spawn,
        offload=_offload(settings),
        demand=WakeDemand(gateway=_name(settings), clock=clock, counted=asked.counted),
        asked=asked,
    )
    keys = Keyring(peppers=found.peppers, salt_key=derive(newest, Purpose.CACHE_SALT), now=clock.now)
    shared.table.on_change(lambda _, after: ticket_keys.learn_from(after.table))
    table_source = TableSource(dsn, settings.paths.run / "gateway/table.json", clock=clock)
    traces = telling.traces(settings, clock)
    told = _evidence(shared.table, clock, dsn)
    ledger = _ledger(shared, traces, newest, told)
    shared.table.on_change(lambda _, after: ledger.expect(*after.table.versions))
    preprocessor, preparing, reader = _preprocessing(shared)
    pipeline, health_watch, accounting = _pipeline(shared, preparing, reader, ledger, told)
    probes = Probes(table=shared.table, keys=keys, breakers=health_watch.breakers, clock=clock, drain=Drain())
    met = front(shared, pipeline, ledger, probes, tracing=traces is not None)
    text, pages = telling.expositions(metrics, table_source)
    return Gateway(
        front=met,
        table=shared.table,
        keys=keys,
        table_source=table_source,
        ticket_keys=ticket_keys,
        key_source=KeySource(dsn, settings.paths.run / "gateway/keys.json", clock=clock),
        clients=(shared.client, shared.probing),
        preprocessor=preprocessor,
        offload=shared.offload,
        accounting=accounting,
        news=_news(shared, keys, accounting, health_watch, partial(_warm, background, preprocessor, shared.offload)),
        health_watch=health_watch,
        recording=shared.recording,
        evidence=told,
        telling=Telling(shared.demand, dsn),
        traces=traces,
        metrics=metrics,
        exposition=text,
        pages={**probes.pages, **pages},
        clock=clock,
        background=background,
    )


def _news(
    shared: Shared, keys: Keyring, accounting: Accounting, watch: HealthWatch, warm: Callable[[RoutingTable], None]
) -> News:
    return News(
        table=shared.table,
        keys=keys,
        accounting=accounting,
        running=watch.running,
        clock=shared.clock,
        metrics=shared.metrics,
        warm=warm,
    )


def _warm(background: Background, preprocessor: PromptPreprocessor, offload: OffloadPool, table: RoutingTable) -> None:
    background.spawn(preprocessor.warm(table.versions))
    background.spawn(offload.warm())


def _name(settings: GatewaySettings) -> str:
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
    return Evidence(arms, partial(_reports, dsn))


@asynccontextmanager
async def _reports(dsn: str) -> AsyncIterator[PostgresArms]:
    async with Database(dsn, max_connections=1) as database:
        yield PostgresArms(database)


def _degrader(crowd: Crowd, shared: Shared) -> PressureDegrader:
    enter_s = {tier: slo.within_s(Indicator.TTFT) for tier, slo in slos.load().items()}
    return health.degrader(crowd, shared.clock, shared.metrics, enter_s)


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


def _client(
    settings: GatewaySettings, clock: SystemClock, metrics: Metrics, limits: PoolLimits = PoolLimits()
) -> HttpClient:
    mutual = peers.mutual(settings, Role.GATEWAY, clock)
    if mutual:
        show_expiry(mutual.now, metrics)
    tls = partial(mutual.client, Role.WORKER) if mutual else None
    return HttpClient(clock=clock.monotonic, limits=limits, tls=tls)


def _offload(settings: GatewaySettings) -> OffloadPool:
    return OffloadPool(reading.program(settings), processes=settings.read_processes, patience_s=reading.PATIENCE_S)


def _preprocessing(shared: Shared) -> tuple[PromptPreprocessor, OffloadedPreprocessor, Detokenizer]:
    tokenizers = TokenizerCache(open_store(shared.settings))
    made = PromptPreprocessor(tokenizers, shared.clock)
    return made, OffloadedPreprocessor(made, shared.offload, task=reading.PREPARE), Detokenizer(tokenizers)


def _pipeline(
    shared: Shared,
    preprocessor: OffloadedPreprocessor,
    reader: Detokenizer,
    ledger: RequestLedger,
    told: Evidence,
) -> tuple[Pipeline, HealthWatch, Accounting]:
    breakers = health.breakers(shared.table, shared.chance, shared.metrics)
    router = WorkerRouter(
        table=shared.table,
        health=breakers,
        clock=shared.clock,
        chance=shared.chance,
        settings=RouterSettings(max_waiting=MOST_WAITING),
        metrics=shared.metrics,
    )
    asking = UsageClient(shared.client, shared.ticket_keys, shared.clock)
    admission, degrader = _admission(shared), _degrader(router, shared)
    resolver = TableResolver(shared.table, lambda version: breakers.is_shut(version) or router.refuses(version))
    copies = copying(shared, router, resolver, told.arms)
    pipeline = Pipeline(
        clock=shared.clock,
        chooser=_chooser(shared, resolver, preprocessor),
        resolver=resolver,
        preprocessor=preprocessor,
        degrader=degrader,
        admission=admission,
        asked=shared.asked,
        holding=holding(shared),
        router=router,
        dispatcher=_dispatcher(shared, router, breakers),
        relays=_relays(shared, reader, copies, told.arms),
        billing=_closing(shared, asking, ledger),
        ledger=ledger,
        shadows=copies,
    )
    accounting = Accounting(
        parts=shared.accounting,
        live=LiveCounts(admission.running, asking),
        orphans=Orphans(lambda: shared.table.view.table.versions, asking),
    )
    watch = HealthWatch(
        breakers=breakers,
        prober=_prober(shared, breakers),
        running=admission.running,
        degrader=degrader,
        table=shared.table,
        clock=shared.clock,
        awake=AwakeClock(),
    )
    return pipeline, watch, accounting


def _closing(shared: Shared, asking: UsageClient, ledger: RequestLedger) -> Closing:
    return Closing(
        asks=asking,
        ledger=ledger,
        forgiven=shared.accounting.forgiven,
        clock=shared.clock,
        spawn=shared.spawn,
        metrics=shared.metrics,
    )


def _chooser(shared: Shared, resolver: TableResolver, preprocessor: OffloadedPreprocessor) -> Choosing:
    choices = lru_cache(MOST_AUTOS * MOST_RULES)(shared.metrics.counter(names.AUTO_CHOICES).labels)
    return Choosing(
        autos=resolver.auto,
        resolver=resolver,
        preprocessor=preprocessor,
        count=lambda alias, rule: choices(rule=f"{alias}/{rule}").inc(),
    )


def _admission(shared: Shared) -> AdmissionController:
    gauge = shared.metrics.gauge(names.IN_FLIGHT)
    in_flight = lru_cache(MOST_MODELS)(lambda model: Counted(gauge.labels(model)))
    return AdmissionController(
        reservations=shared.accounting.reservations,
        tiers=slos.load(),
        clock=shared.clock,
        in_flight=lambda model, change: in_flight(model).inc(change),
    )


def _dispatcher(shared: Shared, router: WorkerRouter, breakers: Breakers) -> WorkerDispatcher:
    return WorkerDispatcher(
        workers=shared.client,
        loads=router,
        breakers=breakers,
        budget=RetryBudget(ratio=shared.settings.retry_budget_ratio, now=shared.clock.monotonic()),
        settings=DispatchSettings(ticket_key=shared.ticket_keys),
        clock=shared.clock,
        chance=shared.chance,
        metrics=shared.metrics,
    )


def _prober(shared: Shared, breakers: Breakers) -> Prober:
    return Prober(
        workers=shared.probing,
        breakers=breakers,
        settings=ProberSettings(ticket_key=shared.ticket_keys),
        clock=shared.clock,
        metrics=shared.metrics,
    )


def _relays(shared: Shared, reader: Detokenizer, copies: Copying, arms: Arms) -> StreamingRelays:
    times = RelaySettings(heartbeat_s=shared.settings.stream_heartbeat_s, stall_s=shared.settings.stream_stall_s)
    return StreamingRelays(
        clock=shared.clock,
        render_error=render,
        settings=times,
        metrics=shared.metrics,
        reader=reader,
        wants=Wants(
            ids=copies.wants_ids,
            json=lambda call: arms.judges(call) or copies.rules.reads(call),
            labels=copies.rules.reads,
        ),
    )
