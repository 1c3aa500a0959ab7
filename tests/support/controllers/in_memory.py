"""A whole controller in memory for tests: real rules, planner, builder, runtime and API on the memory twins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import httpx
from fastapi import FastAPI

from penstock.apps import slos
from penstock.connectors.memory.limits import MemoryLimits
from penstock.control.api.app import bounded, make_app
from penstock.control.api.deps import Control, Secrets
from penstock.control.autoscaler.autoscaler import Autoscaler, ScaleSettings, ScaleStores
from penstock.control.autoscaler.heard import HeardDemand
from penstock.control.budgets.errors import LedgerBudgets
from penstock.control.decisions import Decisions
from penstock.control.fleet.addresses import WorkerAddresses
from penstock.control.fleet.heartbeats import Heartbeats
from penstock.control.fleet.orders import Orders
from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.loop import Loop
from penstock.control.pool.packing import PoolPolicy
from penstock.control.pool.plan import plan_pool
from penstock.control.publish.build import build
from penstock.control.publish.changes import changes
from penstock.control.registry.registry import Registry
from penstock.control.rollout.advance import Advance
from penstock.control.rollout.rollouts import Rollouts
from penstock.control.rollout.shown import RolloutMetrics
from penstock.control.runtime import LoopIntervals, Parts, Runtime, Signals
from penstock.domain.clock import Clock
from penstock.domain.fleet.versions import FleetPlan, FleetView, Running
from penstock.domain.fleet.worker import VERSION_HEADER, WORKER_HEADER
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.models.model import Manifest, digest_of
from penstock.domain.tenancy.keys import Purpose, derive, mint, worker_bearer
from penstock.domain.tenancy.tenant import OPERATORS, Role, Tenant
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.judging.comparisons import Comparisons
from penstock.scaling.bounds import Bounds
from penstock.sealing.administration import KeyAdministration
from penstock.sealing.local import LocalEncryption
from penstock.telemetry.metrics import Metrics
from tests.support.samples import control_plane as things
from tests.support.sealing import MemoryKeyRows
from tests.twins.acts import MemoryActs
from tests.twins.arms import MemoryArms
from tests.twins.audit import MemoryAudit
from tests.twins.decisions import MemoryDecisions
from tests.twins.deletions import MemoryDeletions
from tests.twins.jobs import MemoryJobs
from tests.twins.leadership import LeaderLock, MemoryLeadership
from tests.twins.leases import MemoryLeases
from tests.twins.ledger import MemoryLedger
from tests.twins.packs import MemoryPacks
from tests.twins.registry import MemoryRegistry
from tests.twins.rollouts import MemoryRollouts
from tests.twins.scaling import MemoryScaleRecords
from tests.twins.tables import MemoryTables
from tests.twins.tenancy import MemoryTenancy

PLATFORM_KEY = b"k" * 32
PEPPER = derive(PLATFORM_KEY, Purpose.PEPPER)


def bearer_of(worker: str, version: str = things.TINY) -> str:
    """Return what a worker of this name, started for this version, shows with its reports."""
    return worker_bearer(PLATFORM_KEY, WorkerId(worker), VersionId(version))


class PaperHost:
    """A host with workers that exist on paper."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.running: dict[WorkerId, Running] = {}
        self.plans: list[FleetPlan] = []
        self.started = 0

    async def view(self) -> FleetView:
        return FleetView(running=tuple(self.running.values()))

    async def apply(self, plan: FleetPlan) -> None:
        self.plans.append(plan)
        for worker in plan.drain:
            self.running.pop(worker, None)
        for version in plan.start:
            worker = WorkerId(f"started{self.started}")
            self.started += 1
            self.running[worker] = Running(worker=worker, version=version, started_at=self.clock.now())


class Room:
    def __init__(self, clock: Clock, *, pool_bytes: int = 0, bounds: tuple[Bounds, ...] = ()) -> None:
        self.clock = clock
        self.pool = PoolPolicy(limit_bytes=pool_bytes)
        self.audit = MemoryAudit()
        self.registry = MemoryRegistry(self.audit)
        self.tenancy = MemoryTenancy(self.audit)
        self.tables = MemoryTables()
        self.packs, self.deletions = MemoryPacks(self.audit), MemoryDeletions(self.audit)
        self.jobs, self.leases = MemoryJobs(), MemoryLeases()
        self.key_rows, self.platform_keys = MemoryKeyRows(), [PLATFORM_KEY]
        self.ledger = MemoryLedger()
        self.arms = MemoryArms(clock)
        self.meters = MemoryLimits(clock)
        self.metrics = Metrics()
        self.signals = Signals(self.metrics, pool_bytes=pool_bytes)
        self.heartbeats = Heartbeats(self.leases, clock, listeners=self.signals.listeners)
        self.demand = HeardDemand(clock, on_news=self.signals.news.set)
        self.host = PaperHost(clock)
        self.orders, self.leadings = Orders(self.host), 0
        self.decisions = Decisions(MemoryDecisions())
        self.rules, self.rollouts = Registry(self.registry, pool_bytes=pool_bytes), MemoryRollouts(self.registry)
        self.comparisons = Comparisons(slos.gates)
        self.budgets = LedgerBudgets(ledger=self.ledger, clock=clock, promised=slos.promised(), policy=slos.policy())
        self.scale_records = MemoryScaleRecords()
        stores = ScaleStores(curves=self.registry, records=self.scale_records, overrides=self.rules)
        self.scaler = Autoscaler(ScaleSettings(tiers=slos.load(), bounds=bounds), stores)
        self.loop = self._loop()
        self.lock = LeaderLock()
        self.parts = self._parts()
        self.runtime = Runtime(self.parts, on_lead=self._count_leading)
        self.control = self._control(pool_bytes)

    def _control(self, pool_bytes: int) -> Control:
        return Control(
            clock=self.clock,
            acts=MemoryActs(
                self.audit,
                self.registry,
                self.tenancy,
                self.tables,
                self.rollouts,
                self.jobs,
                self.packs,
                self.deletions,
            ).act,
            registry=self.rules,
            tenancy=self.tenancy,
            sealing=KeyAdministration(self.key_rows, LocalEncryption(lambda: self.platform_keys), "local"),
            deletions=self.deletions,
            tables=self.tables,
            packs=self.packs,
            audit=self.audit,
            jobs=self.jobs,
            heartbeats=self.heartbeats,
            orders=self.orders,
            decisions=self.decisions,
            scaler=self.scaler,
            runtime=self.runtime,
            leader=self.lock.leader,
            metrics=self.metrics,
            secrets=Secrets(peppers=(PEPPER,), platform_keys=(PLATFORM_KEY,)),
            ledger=self.ledger,
            meters=self.meters,
            comparisons=self.comparisons,
            rollouts=Rollouts(
                store=self.rollouts,
                catalogue=self.registry.catalogue,
                seen=self.heartbeats.seen,
                budget_spent=self.budgets.is_spent,
                gates=slos.gates,
                asked=self.arms.asked,
            ),
            agreements=self.arms.agreements,
            addresses=WorkerAddresses(),
            pool_bytes=pool_bytes,
        )

    def _parts(self) -> Parts:
        return Parts(
            loop=self.loop,
            leadership=MemoryLeadership(self.lock),
            heartbeats=self.heartbeats,
            demand=self.demand,
            orders=self.orders,
            metrics=self.metrics,
            pace=LoopIntervals(tick_s=0.02, standby_s=0.02, save_s=0.02, rest_s=0.001),
            signals=self.signals,
        )

    def _loop(self) -> Loop:
        rollouts = Advance(
            store=self.rollouts,
            judges=self.comparisons,
            replicas=self.rules,
            budget_spent=self.budgets.is_spent,
            shown=RolloutMetrics(self.metrics),
        )
        return Loop(
            clock=self.clock,
            registry=self.registry,
            rollouts=rollouts,
            leases=self.heartbeats,
            demand=self.demand,
            scaler=self.scaler,
            fleet=self.orders,
            tables=self.tables,
            plan=partial(plan, policy=FleetPolicy()),
            pool=partial(plan_pool, pool=self.pool),
            build=partial(build, silence_s=15.0),
            changes=changes,
            decisions=self.decisions,
        )

    @cached_property
    def app(self) -> FastAPI:
        return make_app(self.control)

    def _count_leading(self) -> None:
        self.leadings += 1

    async def key(self, role: Role, *, tenant: str = OPERATORS, expires_in_s: float = 0.0) -> str:
        """Mint and store a key of the operators, or of another tenant; there is always a tenant ``acme``."""
        for name in {"acme", tenant} - {one.id for one in await self.tenancy.tenants()}:
            await self.tenancy.add_tenant(Tenant(id=TenantId(name), name=name), things.act())
        now = self.clock.now()
        expires_at = now + expires_in_s if expires_in_s else 0.0
        secret, key = mint(TenantId(tenant), pepper=PEPPER, now=now, role=role, expires_at=expires_at)
        await self.tenancy.add_key(key, things.act())
        return secret

    @asynccontextmanager
    async def client(
        self, credential: str = "", *, worker: str = "", version: str = things.TINY
    ) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client of the API; one that says it is a worker may have that worker's credential."""
        headers = {"authorization": f"Bearer {credential}"} if credential else {}
        headers |= {WORKER_HEADER: worker, VERSION_HEADER: version} if worker else {}
        app = bounded(self.control, Limits(), Intake())
        transport: Any = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://controller", headers=headers) as client:
            yield client


def new_model(manifest: Manifest) -> dict[str, object]:
    return {"manifest": asdict(manifest), "signature": f"signatures/{digest_of(manifest)}"}


async def registered(operator: httpx.AsyncClient, seed: str = "a") -> str:
    """Register a model and return its version."""
    answer = await operator.post("/admin/v1/models", json=new_model(things.manifest(seed=seed)))
    assert answer.status_code in {200, 201}
    return str(answer.json()["id"])
