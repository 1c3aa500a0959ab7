"""The control loop: one tick, in order. A tick that fails publishes no table.

registry (what exists) → rollout (each version's share) → autoscaler (how many workers of each version, which of them
are cordoned) → fleet (workers to start and to drain) → pool (awake workers, if memory is short) → publish
``RoutingTable(number + 1)``

Each number has one author: the autoscaler for versions with bounds, a person or a rollout for others. If memory is
short, the pool takes the autoscaler's wakes as claims.

Fleet, pool and publish are pure: the loop reads their ports before and acts on their results after them. Rollouts
(``Advance`` in ``control/rollout``) read and store during the tick: changes stored before a failure hold, and the next
tick continues.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.control.autoscaler.autoscaler import Scaling
from penstock.control.fleet.ahead import ahead
from penstock.domain.clock import Clock
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.demand import Demand
from penstock.domain.fleet.table import RoutingTable, validate
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen, Wanted
from penstock.domain.ids import VersionId, WorkerId


class RegistryReader(Protocol):
    async def catalogue(self) -> Catalogue: ...


class RolloutStage(Protocol):
    async def advance(self, catalogue: Catalogue, seen: Sequence[Seen], now: float) -> Sequence[Decision]: ...

    def moving(self) -> Mapping[VersionId, VersionId]:
        """Return the candidate of each incumbent with a live rollout."""
        ...

    def unknown(self) -> None: ...


class WorkerLeases(Protocol):
    async def seen(self) -> Sequence[Seen]: ...


class DemandReader(Protocol):
    def demand(self) -> Demand: ...


class ScaleStage(Protocol):
    async def step(
        self, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, demand: Demand, now: float
    ) -> Scaling: ...

    async def keep(self, done: Scaling) -> None:
        """Adopt the decisions of a published tick and store its changes; those of a failed tick are made again."""
        ...

    def forget(self) -> None: ...


class Fleet(Protocol):
    async def view(self) -> FleetView:
        """Return workers with a process, reporting or not, and recent deaths."""
        ...

    async def apply(self, plan: FleetPlan) -> None: ...


class TablePublisher(Protocol):
    async def latest(self) -> RoutingTable: ...

    async def publish(self, table: RoutingTable) -> None:
        """Store the table and push it to gateways; refuse a number that is not newer."""
        ...


class DecisionLog(Protocol):
    def take(self, decisions: Sequence[Decision], now: float) -> None:
        """Record a tick's decisions, without repeats of the last tick's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    table: RoutingTable
    deployments: tuple[Deployment, ...]
    """With the numbers of versions that are scaled."""
    plan: FleetPlan
    wanted: tuple[Wanted, ...]
    running: tuple[Running, ...] = ()
    pinned: Mapping[VersionId, tuple[VersionId, ...]] = field(default_factory=dict)
    """The adapters of each base that its workers never unload."""
    ahead: Mapping[WorkerId, Sequence[VersionId]] = field(default_factory=dict)
    asked: Demand = field(default_factory=Demand)
    scaling: Scaling = field(default_factory=Scaling)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    clock: Clock
    registry: RegistryReader
    rollouts: RolloutStage
    leases: WorkerLeases
    demand: DemandReader
    scaler: ScaleStage
    fleet: Fleet
    tables: TablePublisher
    decisions: DecisionLog
    plan: Callable[[Catalogue, Sequence[Seen], FleetView, float], FleetPlan]
    pool: Callable[[FleetPlan, Catalogue, Sequence[Seen], FleetView, float], FleetPlan]
    build: Callable[[Catalogue, Sequence[Seen], RoutingTable, float, FleetView], RoutingTable]
    changes: Callable[[RoutingTable, RoutingTable], Sequence[Decision]]

    async def tick(self) -> Tick:
        catalogue = await self.registry.catalogue()
        seen = await self.leases.seen()
        view = await self.fleet.view()
        latest = await self.tables.latest()
        now = self.clock.now()

        decided = await self.rollouts.advance(catalogue, seen, now)
        if decided:
            catalogue = await self.registry.catalogue()
        asked = self.demand.demand()
        moving = self.rollouts.moving()
        view = replace(view, wanted=asked.wanted(now), moving=frozenset({*moving, *moving.values()}))
        scaling = await self.scaler.step(catalogue, seen, view, asked, now)
        view = replace(view, targets=scaling.targets)
        plan = self.pool(self.plan(catalogue, seen, view, now), catalogue, seen, view, now)
        table = validate(self.build(catalogue, seen, latest, now, view))

        if not plan.is_empty:
            await self.fleet.apply(plan)
        if table.number > latest.number:
            await self.tables.publish(table)
        changed = self.changes(latest, table) if table is not latest else ()
        deployments = scaling.applied(catalogue.staffed)
        await self.scaler.keep(scaling)
        self.decisions.take((*scaling.why, *plan.why, *decided, *changed), now)
        return Tick(
            table=table,
            deployments=deployments,
            plan=plan,
            wanted=view.wanted,
            running=view.running,
            pinned=catalogue.pinned_adapters,
            asked=asked,
            scaling=scaling,
            ahead=ahead(deployments, moving, seen, view),
        )
