"""The control loop: one tick, in order. A tick that fails publishes no table.

registry (what exists) → rollout (each version's share) → autoscaler (replica counts, planned) → fleet (workers to start
and to drain) → pool (awake workers, if memory is short) → publish ``RoutingTable(number + 1)``

The planned autoscaler will be the only author of replica counts; until then operators and rollouts set them, and no
other stage does. Fleet, pool and publish are pure: the loop reads their ports before and acts on their results after
them. Rollouts (``Advance`` in ``control/rollout``) read and store during the tick: changes stored before a failure
hold, and the next tick continues.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.table import RoutingTable, validate
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Seen, Wanted
from penstock.domain.ids import VersionId


class RegistryReader(Protocol):
    async def catalogue(self) -> Catalogue: ...


class RolloutStage(Protocol):
    """Rollouts in progress and their shares: ``control/rollout/advance.py``."""

    async def advance(self, catalogue: Catalogue, seen: Sequence[Seen], now: float) -> Sequence[Decision]:
        """Return the rollouts' decisions, which may have changed the catalogue."""
        ...

    def moving(self) -> frozenset[VersionId]:
        """Return both versions of each rollout that was live at the last ``advance``."""
        ...

    def unknown(self) -> None:
        """Remove the rollouts' metrics: another controller leads."""
        ...


class WorkerLeases(Protocol):
    async def seen(self) -> Sequence[Seen]: ...


class HeldRequests(Protocol):
    def wanted(self) -> tuple[Wanted, ...]: ...


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
    plan: FleetPlan
    wanted: tuple[Wanted, ...]
    pinned: Mapping[VersionId, tuple[VersionId, ...]] = field(default_factory=dict)
    """The adapters of each base that its workers never unload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """``plan``, ``pool`` and ``build`` are the pure stages of a tick."""

    clock: Clock
    registry: RegistryReader
    rollouts: RolloutStage
    leases: WorkerLeases
    demand: HeldRequests
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
        view = replace(view, wanted=self.demand.wanted(), moving=self.rollouts.moving())
        plan = self.pool(self.plan(catalogue, seen, view, now), catalogue, seen, view, now)
        table = validate(self.build(catalogue, seen, latest, now, view))

        if not plan.is_empty:
            await self.fleet.apply(plan)
        if table.number > latest.number:
            await self.tables.publish(table)
        changed = self.changes(latest, table) if table is not latest else ()
        self.decisions.take((*plan.why, *decided, *changed), now)
        pinned = catalogue.pinned_adapters
        return Tick(table=table, deployments=catalogue.staffed, plan=plan, wanted=view.wanted, pinned=pinned)
