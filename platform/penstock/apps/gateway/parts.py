"""The gateway's composition root: settings cut into rooms, stages and adapters plugged together."""

import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from penstock.adapters.http.client import HttpClient
from penstock.adapters.memory.answers import MemoryAnswers
from penstock.adapters.offload import OffloadPool
from penstock.adapters.postgres.sources import KeySource, TableSource
from penstock.adapters.redis.answers import RedisAnswers
from penstock.adapters.redis.wire import Wire
from penstock.apps import peers, slos
from penstock.apps.exposition import Exposition, tenant_labels
from penstock.apps.gateway import health, reading
from penstock.apps.gateway.accounting import Accounting, accounting
from penstock.apps.gateway.background import Background
from penstock.apps.gateway.health import HealthWatch
from penstock.apps.gateway.probes import Probes
from penstock.apps.keys import Keys
from penstock.apps.settings import GatewaySettings
from penstock.apps.sharing import doubts_on_answers
from penstock.apps.stores import database_dsn, open_store
from penstock.domain.clock import SystemClock
from penstock.domain.idempotency import AnswerQuota, AnswerStore
from penstock.domain.ids import VersionId
from penstock.domain.keys import Purpose, derive
from penstock.domain.table import RoutingTable
from penstock.domain.tenant import Principal
from penstock.domain.ticket_keys import TicketKeys
from penstock.gateway.admission.controller import AdmissionController
from penstock.gateway.admission.reservations import Spawn
from penstock.gateway.billing import Asking, Closing, LiveCounts, Orphans
from penstock.gateway.counting import Counting
from penstock.gateway.dispatch import (
    Breakers,
    DispatchSettings,
    Prober,
    ProberSettings,
    RetryBudget,
    WorkerDispatcher,
)
from penstock.gateway.edge.asgi import Edge
from penstock.gateway.edge.bounds import BodyBounds, of_table
from penstock.gateway.edge.errors import render
from penstock.gateway.edge.idempotent import Once
from penstock.gateway.edge.intake import Intake
from penstock.gateway.edge.limits import Limits
from penstock.gateway.edge.reading import BodyReader
from penstock.gateway.edge.routes import Facts, application
from penstock.gateway.edge.server import EdgeServer, configure
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.pipeline import Pipeline
from penstock.gateway.preprocess import Detokenizer, OffloadedPreprocessor, PromptPreprocessor, TokenizerCache
from penstock.gateway.routing import CurrentTable, RouterSettings, TableResolver, WorkerRouter
from penstock.gateway.routing.resolve import reachable
from penstock.gateway.streaming import RelaySettings, StreamingRelays
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.requests import RequestLedger
from penstock.telemetry.traces import RequestTraces, otlp, traceparent
from penstock.tls.identity import Role
from penstock.worker.gate.admission.fair_queue import Bounds

ID_BYTES = 8
MOST_MODELS = 1024
MOST_WAITING = 4 * Bounds().total_requests
"""A worker is passed over when so many wait at its door. Far beyond the door's own bounds: it knows who gives way for
whom, and a refusal here would hit everybody alike."""
MOST_LOOKS = 4
"""Before a body is read, so many versions are asked about at most."""
ANSWERS_PATIENCE_S = 0.5
"""What a request with an idempotency key waits for the store at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The parts that the process looks after."""

    server: EdgeServer
    table: CurrentTable
    keys: Keyring
    table_source: TableSource
    key_source: KeySource
    ticket_keys: TicketKeys
    client: HttpClient
    preprocessor: PromptPreprocessor
    offload: OffloadPool
    accounting: Accounting
    health_watch: HealthWatch
    traces: RequestTraces | None
    metrics: Metrics
    exposition: Exposition
    clock: SystemClock
    background: Background
    probes: Probes

    async def exchange(self, found: Keys) -> None:
        """Put other keys of the platform into force."""
        self.keys.exchange(peppers=found.peppers, salt_key=derive(found.platform[0], Purpose.CACHE_SALT))
        self.ticket_keys.exchange(found.platform)
        _learn_marks(self.ticket_keys, self.table.view.table)

    async def close(self) -> None:
        """Give back connections and threads, send the last spans."""
        await self.client.close()
        self.preprocessor.close()
        await self.offload.close()
        if self.traces is not None:
            self.traces.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What several parts share."""

    settings: GatewaySettings
    keys: Keys
    ticket_keys: TicketKeys
    clock: SystemClock
    metrics: Metrics
    chance: random.Random
    table: CurrentTable
    client: HttpClient
    accounting: Accounting
    spawn: Spawn
    offload: OffloadPool


def compose(settings: GatewaySettings, found: Keys) -> Gateway:
    """Return a gateway that has neither connected nor listened yet."""
    metrics = Metrics()
    failures = metrics.counter(names.BACKGROUND_FAILURES)
    background = Background(lambda task: failures.labels(task=task).inc())
    clock, dsn = SystemClock(), database_dsn(settings)
    newest, ticket_keys = found.platform[0], TicketKeys(found.platform)
    shared = _Shared(
        settings=settings,
        keys=found,
        ticket_keys=ticket_keys,
        clock=clock,
        metrics=metrics,
        chance=random.Random(),
        table=CurrentTable(),
        client=_client(settings, clock),
        accounting=accounting(settings, dsn, clock, background.spawn, metrics),
        spawn=background.spawn,
        offload=_offload(settings),
    )
    copies = settings.paths.run / "gateway"
    keys = Keyring(peppers=found.peppers, salt_key=derive(newest, Purpose.CACHE_SALT), now=clock.now)
    shared.table.on_change(lambda _, after: _learn_marks(ticket_keys, after.table))
    table_source = TableSource(dsn, copies / "table.json", clock=clock)
    traces = RequestTraces(otlp(settings.otlp_endpoint), clock.now, clock.monotonic) if settings.otlp_endpoint else None
    traced = traces.finished if traces else None
    ledger = RequestLedger(metrics, clock.monotonic, traced, tenant_labels(settings, newest))
    tokenizers = TokenizerCache(open_store(settings))
    preprocessor = PromptPreprocessor(tokenizers, clock)
    preparing = OffloadedPreprocessor(preprocessor, shared.offload, task=reading.PREPARE)
    pipeline, health_watch = _pipeline(shared, keys, preparing, Detokenizer(tokenizers), ledger)
    probes = Probes(
        table=shared.table,
        keys=keys,
        breakers=health_watch.breakers,
        clock=clock,
        draining=lambda: server.config.draining,  # made below
    )
    server = _server(shared, pipeline, ledger, probes, tracing=traces is not None)
    return Gateway(
        server=server,
        table=shared.table,
        keys=keys,
        table_source=table_source,
        ticket_keys=ticket_keys,
        key_source=KeySource(dsn, copies / "keys.json", clock=clock),
        client=shared.client,
        preprocessor=preprocessor,
        offload=shared.offload,
        accounting=shared.accounting,
        health_watch=health_watch,
        traces=traces,
        metrics=metrics,
        exposition=_exposition(metrics, table_source),
        clock=clock,
        background=background,
        probes=probes,
    )


def _client(settings: GatewaySettings, clock: SystemClock) -> HttpClient:
    """Return the way to workers: with this gateway's certificate, where it has one."""
    mutual = peers.mutual(settings, Role.GATEWAY, clock)
    return HttpClient(clock=clock.monotonic, tls=partial(mutual.client, Role.WORKER) if mutual else None)


def _offload(settings: GatewaySettings) -> OffloadPool:
    return OffloadPool(reading.program(settings), processes=settings.read_processes, patience_s=reading.PATIENCE_S)


def _pipeline(
    shared: _Shared, keys: Keyring, preprocessor: OffloadedPreprocessor, reader: Detokenizer, ledger: RequestLedger
) -> tuple[Pipeline, HealthWatch]:
    breakers = health.breakers(shared.table, shared.chance, shared.metrics)
    router = WorkerRouter(
        table=shared.table,
        health=breakers,
        clock=shared.clock,
        chance=shared.chance,
        settings=RouterSettings(max_waiting=MOST_WAITING),
        metrics=shared.metrics,
    )
    asking = Asking(shared.client, shared.ticket_keys, shared.clock)
    admission, degrader = _admission(shared), health.degrader(router, shared.clock, shared.metrics)
    pipeline = Pipeline(
        clock=shared.clock,
        identity=keys,
        resolver=TableResolver(shared.table),
        preprocessor=preprocessor,
        degrader=degrader,
        admission=admission,
        router=router,
        dispatcher=_dispatcher(shared, router, breakers),
        relays=_relays(shared, reader),
        billing=Closing(asks=asking, ledger=ledger, clock=shared.clock, spawn=shared.spawn, metrics=shared.metrics),
        ledger=ledger,
    )
    shared.accounting.live = LiveCounts(admission.running, asking)
    shared.accounting.orphans = Orphans(lambda: shared.table.view.table.versions, asking)
    return pipeline, HealthWatch(
        breakers=breakers,
        prober=_prober(shared, breakers),
        running=admission.running,
        degrader=degrader,
        table=shared.table,
        clock=shared.clock,
    )


def _admission(shared: _Shared) -> AdmissionController:
    in_flight = lru_cache(MOST_MODELS)(shared.metrics.gauge(names.IN_FLIGHT).labels)
    return AdmissionController(
        reservations=shared.accounting.reservations,
        default_deadline_s={tier: slo.deadline_s for tier, slo in slos.load().items()},
        clock=shared.clock,
        in_flight=lambda model, change: in_flight(model).inc(change),
    )


def _learn_marks(ticket_keys: TicketKeys, table: RoutingTable) -> None:
    """Learn which key each worker was given, where there is more than one."""
    if ticket_keys.is_changing:
        ticket_keys.learn({worker.id: worker.key_mark for version in table.versions for worker in version.workers})


def _dispatcher(shared: _Shared, router: WorkerRouter, breakers: Breakers) -> WorkerDispatcher:
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


def _prober(shared: _Shared, breakers: Breakers) -> Prober:
    return Prober(
        workers=shared.client,
        breakers=breakers,
        settings=ProberSettings(ticket_key=shared.ticket_keys),
        clock=shared.clock,
        metrics=shared.metrics,
    )


def _relays(shared: _Shared, reader: Detokenizer) -> StreamingRelays:
    times = RelaySettings(heartbeat_s=shared.settings.stream_heartbeat_s, stall_s=shared.settings.stream_stall_s)
    return StreamingRelays(
        clock=shared.clock, render_error=render, settings=times, metrics=shared.metrics, reader=reader
    )


def _server(shared: _Shared, pipeline: Pipeline, ledger: RequestLedger, probes: Probes, *, tracing: bool) -> EdgeServer:
    limits, settings = _limits(shared.settings), shared.settings
    facts = Facts(
        table=lambda: shared.table.view.table,
        missing=probes.missing,
        draining=probes.draining,
        serves=probes.serves,
    )
    once = _once(shared, pipeline)
    edge = Edge(
        corridor=once,
        counting=Counting(
            resolver=pipeline.resolver, preprocessor=pipeline.preprocessor, rates=shared.accounting.reservations
        ),
        identity=pipeline.identity,
        clock=shared.clock,
        limits=limits,
        ids=_new_id,
        observer=ledger,
        rest=application(pipeline.identity, facts, ledger, ids=_new_id),
        reader=BodyReader(shared.offload, task=reading.READ),
        bounds=_bounds(shared.table),
        intake=Intake(total_bytes=settings.max_held_bytes, most_arriving=max(1, settings.max_connections // 4)),
        refuse_early=_early(shared),
        is_recorded=once.is_recorded,
        trace=(lambda given: traceparent(given, settings.trace_ratio, shared.chance)) if tracing else str,
    )
    config = configure(edge, limits, refused=ledger.refused, ids=_new_id)
    return EdgeServer(config)


def _once(shared: _Shared, pipeline: Pipeline) -> Once:
    used = shared.metrics.counter(names.IDEMPOTENT_REQUESTS)
    return Once(
        pipeline,
        _answers(shared),
        stall_s=shared.settings.stream_stall_s,
        count=lambda use: used.labels(use).inc(),
    )


def _answers(shared: _Shared) -> AnswerStore:
    settings = shared.settings
    if doubt := doubts_on_answers(settings):
        logs.logger().warning("answers_kept_doubtfully", where=doubt)
    quota = AnswerQuota(max_bytes=settings.answers_tenant_bytes, max_records=settings.answers_tenant_records)
    if not settings.answers_url:
        return MemoryAnswers(shared.clock, quota)
    key = derive(shared.keys.platform[0], Purpose.ANSWERS)
    return RedisAnswers(Wire(settings.answers_address, patience_s=ANSWERS_PATIENCE_S), key, quota)


def _bounds(table: CurrentTable) -> Callable[[], BodyBounds]:
    """Return what tells the bounds of the table in force."""
    held = [BodyBounds()]
    table.on_change(lambda _, after: held.__setitem__(0, of_table(after.table)))
    return lambda: held[0]


def _early(shared: _Shared) -> Callable[[Principal, str], Awaitable[None]]:
    """Return what refuses before a large body is read, where the limits refuse whatever it may hold."""

    async def refuse(who: Principal, model: str) -> None:
        versions: frozenset[VersionId] = frozenset()
        if who.scopes:
            versions = reachable(shared.table.view, who, model)
        if len(versions) <= MOST_LOOKS:
            await shared.accounting.reservations.refuse_early(who, sorted(versions))

    return refuse


def _new_id() -> str:
    return secrets.token_hex(ID_BYTES)


def _exposition(metrics: Metrics, source: TableSource) -> Exposition:
    age, refused = metrics.gauge(names.TABLE_AGE_SECONDS), metrics.counter(names.TABLES_REFUSED)
    counted = [0]

    def expose() -> bytes:
        age.set(source.age_s)
        refused.inc(source.refused - counted[0])
        counted[0] = source.refused
        return metrics.exposition()

    return expose


def _limits(settings: GatewaySettings) -> Limits:
    return Limits(
        body_bytes=settings.max_body_bytes,
        header_bytes=settings.max_header_bytes,
        connections=settings.max_connections,
        header_timeout_s=settings.header_timeout_s,
        body_timeout_s=settings.body_timeout_s,
        keep_alive_s=settings.keep_alive_s,
        write_buffer_bytes=settings.stream_buffer_bytes,
        drain_grace_s=settings.drain_grace_s,
    )
