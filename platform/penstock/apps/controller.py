"""The controller's composition root: real stores, the fleet that the settings name, the loop, the API."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.apps import keys, observed, ownership, peers, slos
from penstock.apps.fleets import Hosted, WorkerCommand, hosted
from penstock.apps.keys import Keys
from penstock.apps.stores import database_dsn, open_encryption, open_head_signer, open_segments
from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.audit_chain import PostgresAuditChain
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.deletions import PostgresDeletions
from penstock.connectors.postgres.demand import PostgresDemand
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.leadership import PostgresLeadership, leader
from penstock.connectors.postgres.leases import PostgresLeases
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.rollouts import PostgresRollouts
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.connectors.postgres.scaling import PostgresScaleRecords
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.connectors.postgres.tenant_keys import PostgresTenantKeys
from penstock.connectors.records.decisions import DecisionFile
from penstock.connectors.redis.limits import RedisLimits
from penstock.connectors.redis.wire import Wire
from penstock.control.api import serving
from penstock.control.api.deps import Control, Secrets
from penstock.control.autoscaler.autoscaler import Autoscaler, ScaleStores
from penstock.control.autoscaler.heard import HeardDemand
from penstock.control.budgets.errors import LedgerBudgets, RecordedBudgets
from penstock.control.budgets.watch import BudgetWatch
from penstock.control.decisions import Decisions
from penstock.control.fleet.addresses import WorkerAddresses
from penstock.control.fleet.heartbeats import Heartbeats
from penstock.control.fleet.orders import Orders
from penstock.control.fleet.plan import FleetPolicy
from penstock.control.loop import Loop
from penstock.control.pool.plan import plan_pool
from penstock.control.publish.build import build
from penstock.control.publish.changes import changes
from penstock.control.receipts import Receipts
from penstock.control.registry.packs import forget_old
from penstock.control.registry.registry import LoopActs, Registry
from penstock.control.rollout.advance import Advance
from penstock.control.rollout.evidence import ComparisonWatch, EvidenceReader
from penstock.control.rollout.rollouts import Rollouts
from penstock.control.rollout.shown import RolloutMetrics
from penstock.control.runtime import LoopIntervals, Parts, Runtime, Signals
from penstock.control.sequencer import Outside, Sequencer
from penstock.domain.clock import DAY_S, Clock, SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import VersionId, WorkerId
from penstock.judging.comparisons import Comparisons
from penstock.lateness.awake import AwakeClock
from penstock.sealing.administration import KeyAdministration
from penstock.settings import CONTROLLER_PORT
from penstock.settings.processes import ControllerSettings
from penstock.supervision import exposition
from penstock.supervision.files import write_private
from penstock.supervision.listening import bind, bind_first_free, url_of
from penstock.telemetry import logs
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.tenants import scope_label
from penstock.tls.identity import Role
from penstock.tls.mutual import Mutual, show_expiry

_RETRY_S = 1.0
GATEWAYS = "gateway"
"""The ScaledObject of the gateways, which the infrastructure makes."""
Run = Callable[[], Coroutine[None, None, None]]
STALE_LEASES = 3
"""The number of worker leases after whose length without a good tick a leader isn't ready."""


def worker_command(worker: WorkerId, version: VersionId) -> Sequence[str]:
    return (sys.executable, "-m", "penstock.cli", "worker", version, "--id", worker)


def main(settings: ControllerSettings, command: WorkerCommand = worker_command, *, is_supervised: bool = False) -> None:
    """Run until SIGTERM or SIGINT; workers go on without it."""
    logs.configure("controller", level=settings.log_level)
    keys.check_files(settings, ControllerSettings)
    if not is_supervised:
        exposition.check_port(settings.metrics_address)
    asyncio.run(_main(settings, command))


async def _main(settings: ControllerSettings, command: WorkerCommand) -> None:
    found = keys.read(settings)
    secrets = Secrets(peppers=found.peppers, platform_keys=found.platform)
    mutual = peers.mutual(settings, Role.CONTROLLER, SystemClock())
    port = settings.controller_port
    listener = (
        bind(settings.host, port, "PENSTOCK_CONTROLLER_PORT")
        if port
        else bind_first_free(settings.host, CONTROLLER_PORT)
    )
    url = url_of(settings.advertise or settings.host, listener.getsockname()[1], secure=mutual is not None)
    dsn = database_dsn(settings)
    async with Database(dsn) as database, hosted(settings, command) as fleet:
        control = _compose(settings, database, secrets, fleet, url)
        if mutual:
            show_expiry(mutual.now, control.metrics)
            control = replace(control, certificate_ends_at=lambda: mutual.now().ends_at)
        logs.logger().info("controller_listens", url=url, zone=settings.zone, region=settings.region)
        watch = _watch(control, scope_label(settings.metrics_tenants, found.platform[0]))
        compared = _compared(control, database)
        beside = (
            asyncio.create_task(
                exposition.serve(
                    settings.metrics_address, settings.paths.run, control.metrics.exposition, control.runtime.pages
                )
            ),
            asyncio.create_task(keys.follow(settings, partial(_exchange, settings, database, secrets))),
        )
        try:
            claim = partial(ownership.check, settings, database, found)
            chained = _sequencer(settings, control, database)
            work: list[Run] = [
                watch.run,
                compared.run,
                chained.run,
                _receipts(settings, control).run,
                partial(serving.note_repeats, control),
                partial(PostgresDemand(dsn).run, control.runtime.demand.take),
                partial(forget_old, PostgresPacks(database), control.clock),
            ]
            if settings.scaler_port and fleet.namespace:
                work.append(_told(settings, control, fleet, mutual))
            await serving.serve(control, _control(control.runtime, work, database, claim), listener, mutual)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)


def _compose(settings: ControllerSettings, database: Database, secrets: Secrets, fleet: Hosted, url: str) -> Control:
    clock, metrics, compared = SystemClock(), Metrics().tell_start(), Comparisons(slos.gates)
    tables, registry = PostgresTables(database), PostgresRegistry(database)
    signals = Signals(metrics, pool_bytes=settings.pooled_bytes)
    heartbeats = Heartbeats(PostgresLeases(database), clock, listeners=signals.listeners, awake=AwakeClock())
    orders, demand = Orders(fleet.host), HeardDemand(AwakeClock(), on_news=signals.news.set)
    rules, ledger = Registry(registry, pool_bytes=settings.pooled_bytes), PostgresLedger(database)
    decisions, scaler = Decisions(DecisionFile(settings.paths.decisions)), _scaler(fleet, database, rules)
    rollouts = _rollouts(database, registry, heartbeats, _budgets(settings, ledger, clock))
    parts = Parts(
        loop=Loop(
            clock=clock,
            registry=registry,
            rollouts=_advance(rollouts, compared, LoopActs(acts=database.act, rules=rules), metrics),
            leases=heartbeats,
            demand=demand,
            scaler=scaler,
            fleet=orders,
            tables=tables,
            plan=partial(fleet.plan, policy=FleetPolicy(lease_s=settings.lease_s, silence_s=3 * settings.lease_s)),
            pool=partial(plan_pool, pool=fleet.pool),
            build=partial(build, silence_s=2 * settings.lease_s, pool_bytes=settings.pooled_bytes),
            changes=changes,
            decisions=decisions,
        ),
        leadership=PostgresLeadership(database_dsn(settings), f"{socket.gethostname()} {os.getpid()}"),
        heartbeats=heartbeats,
        demand=demand,
        orders=orders,
        metrics=metrics,
        pace=LoopIntervals(tick_s=settings.tick_s, lease_s=settings.lease_s, stale_s=STALE_LEASES * settings.lease_s),
        signals=signals,
    )
    return Control(
        clock=clock,
        acts=database.act,
        registry=rules,
        tenancy=PostgresTenancy(database),
        sealing=_sealing(settings, database, secrets),
        deletions=PostgresDeletions(database),
        tables=tables,
        packs=PostgresPacks(database),
        audit=PostgresAudit(database),
        jobs=PostgresJobs(database),
        heartbeats=heartbeats,
        orders=orders,
        decisions=decisions,
        scaler=scaler,
        runtime=Runtime(parts, on_lead=partial(write_private, settings.paths.controller_address, url)),
        leader=partial(leader, database),
        metrics=metrics,
        secrets=secrets,
        ledger=ledger,
        comparisons=compared,
        rollouts=rollouts,
        agreements=PostgresArms(database).agreements,
        meters=RedisLimits(Wire(settings.limits_address)) if settings.limits_url else None,
        addresses=_addresses(settings, secure=url.startswith("https:")),
        pool_bytes=settings.pooled_bytes,
    )


def _sealing(settings: ControllerSettings, database: Database, secrets: Secrets) -> KeyAdministration:
    encryption = open_encryption(settings, lambda: secrets.platform_keys)
    return KeyAdministration(PostgresTenantKeys(database), encryption, settings.region)


def _told(settings: ControllerSettings, control: Control, fleet: Hosted, mutual: Mutual | None) -> Run:
    """Return the server for KEDA's queries; its library is imported only here, since one machine needs none."""
    from penstock.connectors.keda.server import PushScaler, ScalerAddress, ToldNumbers

    numbers, scaler = ToldNumbers(control.metrics), control.scaler

    def tell(replicas: Mapping[str, int]) -> None:
        numbers.tell("workers", replicas)
        numbers.tell("gateways", {GATEWAYS: scaler.gateways.workers} if scaler.gateways else {})

    fleet.tells(tell)
    address = ScalerAddress(host=settings.host, port=settings.scaler_port)
    return PushScaler(address, numbers, control.runtime, fleet.namespace, mutual).run


def _budgets(settings: ControllerSettings, ledger: PostgresLedger, clock: Clock) -> LedgerBudgets:
    recorded = RecordedBudgets(read=partial(observed.heeded_budgets, settings), clock=clock)
    return LedgerBudgets(
        ledger=ledger, clock=clock, promised=slos.promised(), policy=slos.policy(), recorded=recorded.of
    )


def _rollouts(
    database: Database,
    registry: PostgresRegistry,
    heartbeats: Heartbeats,
    budgets: LedgerBudgets,
) -> Rollouts:
    return Rollouts(
        store=PostgresRollouts(database),
        catalogue=registry.catalogue,
        seen=heartbeats.seen,
        budget_spent=budgets.is_spent,
        gates=slos.gates,
        asked=PostgresArms(database).asked,
    )


def _scaler(fleet: Hosted, database: Database, rules: Registry) -> Autoscaler:
    stores = ScaleStores(
        curves=PostgresRegistry(database),
        records=PostgresScaleRecords(database),
        overrides=LoopActs(acts=database.act, rules=rules),
    )
    return Autoscaler(fleet.scale, stores)


def _advance(rollouts: Rollouts, compared: Comparisons, rules: LoopActs, metrics: Metrics) -> Advance:
    return Advance(
        store=rollouts.store,
        judges=compared,
        replicas=rules,
        budget_spent=rollouts.budget_spent,
        shown=RolloutMetrics(metrics),
    )


def _addresses(settings: ControllerSettings, *, secure: bool) -> WorkerAddresses:
    try:
        return WorkerAddresses.of(settings.worker_addresses.split(","), secure=secure)
    except ValueError as error:
        do = "Write networks and domains: 10.0.0.0/8,workers.svc.cluster.local"
        raise CommandError(f"PENSTOCK_WORKER_ADDRESSES has no usable network: {error}.", do=do) from error


def _watch(control: Control, label: Callable[[str], str]) -> BudgetWatch:
    return BudgetWatch(
        clock=control.clock,
        ledger=control.ledger,
        ring=control.ring,
        log=control.audit,
        metrics=control.metrics,
        shared=control.meters,
        acts=lambda: control.runtime.leads,
        label=label,
    )


def _sequencer(settings: ControllerSettings, control: Control, database: Database) -> Sequencer:
    outside = Outside(signer=partial(open_head_signer, settings), store=partial(open_segments, settings, control.clock))
    return Sequencer(
        chain=PostgresAuditChain(database),
        outside=outside,
        clock=control.clock,
        metrics=control.metrics,
        region=settings.region,
        keep_s=settings.audit_keep_days * DAY_S,
        acts=lambda: control.runtime.leads,
    )


def _receipts(settings: ControllerSettings, control: Control) -> Receipts:
    return Receipts(
        store=control.deletions,
        signer=partial(open_head_signer, settings),
        clock=control.clock,
        region=settings.region,
        acts=lambda: control.runtime.leads,
    )


def _compared(control: Control, database: Database) -> ComparisonWatch:
    evidence = EvidenceReader(PostgresArms(database), control.comparisons.take)
    return ComparisonWatch(control.clock, PostgresRegistry(database).catalogue, evidence, control.comparisons)


async def _exchange(settings: ControllerSettings, database: Database, secrets: Secrets, found: Keys) -> None:
    before = Keys(platform=secrets.platform_keys, peppers=secrets.peppers)
    secrets.peppers, secrets.platform_keys = found.peppers, found.platform
    try:
        await ownership.check(settings, database, found.after(before))
    except (StoreUnavailable, CommandError) as error:
        logs.logger().warning("database_not_told_of_keys", reason=str(error))


async def _control(
    runtime: Runtime, beside: Sequence[Run], database: Database, claim: Callable[[], Awaitable[None]]
) -> None:
    while True:
        try:
            await migrate(database)
            await claim()
            break
        except StoreUnavailable as error:
            logs.logger().warning("database_is_away", reason=error.message)
            await asyncio.sleep(_RETRY_S)
    async with asyncio.TaskGroup() as group:
        group.create_task(runtime.run())
        for run in beside:
            group.create_task(run())
