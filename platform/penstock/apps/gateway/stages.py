"""The stages of the request pipeline, composed by the settings."""

import secrets
from dataclasses import dataclass
from functools import lru_cache

from penstock.apps import slos
from penstock.apps.gateway import reading
from penstock.apps.gateway.shadowing import copying
from penstock.apps.gateway.shared import Shared
from penstock.apps.stores import open_store
from penstock.connectors.postgres.database import lone
from penstock.connectors.postgres.demand import PostgresDemandTeller
from penstock.domain.serving.auto import MOST_AUTOS, MOST_RULES
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.slo import Indicator
from penstock.domain.tenancy.tenant import Principal
from penstock.filters.pack import Policy
from penstock.gateway.admission.controller import AdmissionController
from penstock.gateway.admission.degrader import Crowd, PressureDegrader
from penstock.gateway.billing.asking import LiveCounts, UsageClient
from penstock.gateway.billing.closing import Closing
from penstock.gateway.billing.orphans import Orphans
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.inside import Asked
from penstock.gateway.choosing import Choosing
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.dispatcher import DispatchSettings, WorkerDispatcher
from penstock.gateway.dispatch.prober import Prober, ProberSettings
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.evidence.counting import Arms
from penstock.gateway.holding import Holding, HoldSettings, WakeDemand
from penstock.gateway.listener.errors import render
from penstock.gateway.pipeline import Pipeline
from penstock.gateway.preprocess.offload import OffloadedPreprocessor
from penstock.gateway.preprocess.prepare import PromptPreprocessor
from penstock.gateway.preprocess.tokenizer_cache import Detokenizer, TokenizerCache
from penstock.gateway.records.requests import RequestLedger
from penstock.gateway.routing.resolve import TableResolver
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.selection import RouterSettings
from penstock.gateway.safety.confirming import Ask, Confirming
from penstock.gateway.safety.interventions import Interventions
from penstock.gateway.safety.stage import ScreenedRequests
from penstock.gateway.shadow.shadows import Copying
from penstock.gateway.streaming.relays import RelaySettings, StreamingRelays, Wants
from penstock.gateway.upkeep import health
from penstock.gateway.upkeep.accounting import Accounting
from penstock.gateway.upkeep.evidence import Evidence
from penstock.gateway.upkeep.health import HealthWatch
from penstock.lateness.awake import AwakeClock
from penstock.telemetry import names
from penstock.telemetry.metrics import Counted
from penstock.worker.gate.queueing.fair_queue import Bounds


@dataclass(frozen=True, slots=True)
class Telling:
    """Reports demand over a separate database connection."""

    demand: WakeDemand
    dsn: str

    async def run(self) -> None:
        async with lone(self.dsn, PostgresDemandTeller) as teller:
            try:
                await self.demand.run(teller)
            finally:  # an ended gateway is not a silent one
                await self.demand.tell(teller, has_ended=True)


def holding(shared: Shared) -> Holding:
    ours = shared.settings
    made = Holding(
        fleet=shared.table,
        demand=shared.demand,
        clock=shared.clock,
        settings=HoldSettings(requests=ours.hold_requests, tokens=ours.hold_tokens, seconds=ours.hold_s),
        metrics=shared.metrics,
    )
    shared.table.on_change(lambda _, after: made.learn(after.table.versions))
    return made


_ID_BYTES = 12
MOST_MODELS = 1024
MOST_WAITING = 4 * Bounds().total_requests
"""Waiting requests at a worker above which it is skipped. Far above the gate's own bounds, which consider priority: a
refusal here would affect all callers equally.
"""


def preprocessing(shared: Shared) -> tuple[PromptPreprocessor, OffloadedPreprocessor, Detokenizer]:
    tokenizers = TokenizerCache(open_store(shared.settings))
    made = PromptPreprocessor(tokenizers, shared.clock)
    return made, OffloadedPreprocessor(made, shared.offload, task=reading.PREPARE), Detokenizer(tokenizers)


def pipeline(
    shared: Shared,
    preprocessor: OffloadedPreprocessor,
    reader: Detokenizer,
    ledger: RequestLedger,
    told: Evidence,
) -> tuple[Pipeline, WorkerRouter, HealthWatch, Accounting]:
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

    async def ask(request: InferenceRequest, who: Principal) -> Asked:
        return await made.ask(request, who)

    resolver = TableResolver(shared.table, lambda version: breakers.is_shut(version) or router.refuses(version))
    copies = copying(shared, router, resolver, told.arms)
    made = Pipeline(
        clock=shared.clock,
        chooser=_chooser(shared, resolver, preprocessor),
        resolver=resolver,
        preprocessor=preprocessor,
        degrader=degrader,
        admission=admission,
        safety=_screening(shared, ask),
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
    return made, router, watch, accounting


def _screening(shared: Shared, ask: Ask) -> ScreenedRequests:
    seen = Interventions(shared.metrics, shared.accounting.spool.filtered, shared.clock.now, shared.accounting.texts)

    def policy(call: Admitted) -> Policy:
        return shared.packs.policy(call.version.safety, call.principal.plan.safety)

    confirming = Confirming(
        ask=ask,
        ids=lambda: f"judge-{secrets.token_hex(_ID_BYTES)}",
        clock=shared.clock,
        tell=seen.judged,
        spawn=shared.spawn,
    )
    return ScreenedRequests(policy, seen.record, confirming, seen.held)


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


def _degrader(crowd: Crowd, shared: Shared) -> PressureDegrader:
    enter_s = {tier: slo.within_s(Indicator.TTFT) for tier, slo in slos.load().items()}
    return health.degrader(crowd, shared.clock, shared.metrics, enter_s)
