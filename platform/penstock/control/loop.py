"""The life of a decision: one tick, in order. A tick that fails changes nothing.

registry (what exists) → rollout (each version's share) → autoscaler (how many, to come) → fleet (what to start and to
drain) → pool (which workers are awake, if memory is short) → publish ``RoutingTable(number + 1)``

The autoscaler will be the one author of replica counts: until then they are the operators' and the rollouts', and no
other stage sets them.
Ports are read before and acted on after a stage, never during: the stages are pure.
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
    """What exists."""

    async def catalogue(self) -> Catalogue:
        """Read it, or raise ``StoreUnavailable``."""
        ...


class Rollouts(Protocol):
    """Candidates on their way, and their shares."""

    async def advance(self, catalogue: Catalogue, seen: Sequence[Seen], now: float) -> Sequence[Decision]:
        """Take each one on; return what was decided, and may have changed the catalogue."""
        ...

    def moving(self) -> frozenset[VersionId]:
        """Return both versions of each that was not over when they were last taken on."""
        ...

    def unknown(self) -> None:
        """Show nothing of them any more: another controller leads."""
        ...


class WorkerLeases(Protocol):
    """Who reported lately."""

    async def seen(self) -> Sequence[Seen]:
        """All leases that are not yet forgotten."""
        ...


class Demand(Protocol):
    """What gateways hold requests for."""

    def wanted(self) -> tuple[Wanted, ...]:
        """Return the versions that somebody waits for."""
        ...


class Fleet(Protocol):
    """Starts and stops worker processes (local supervisor, Kubernetes)."""

    async def view(self) -> FleetView:
        """Workers whose process exists, whether they report or not, and those that died lately."""
        ...

    async def apply(self, plan: FleetPlan) -> None:
        """Start, drain, wake and put to sleep."""
        ...


class TablePublisher(Protocol):
    """Where gateways get their table from."""

    async def latest(self) -> RoutingTable:
        """The last published table, or the empty one."""
        ...

    async def publish(self, table: RoutingTable) -> None:
        """Store and push it; refuse a number that is not newer."""
        ...


class DecisionLog(Protocol):
    """Where decisions and their reasons are kept for people."""

    def take(self, decisions: Sequence[Decision], now: float) -> None:
        """Note what a tick decided; what the one before did for the same reason is no news."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What a tick brought about: the table in force, what should run in workers of its own, what was done for it."""

    table: RoutingTable
    deployments: tuple[Deployment, ...]
    plan: FleetPlan
    wanted: tuple[Wanted, ...]
    pinned: Mapping[VersionId, tuple[VersionId, ...]] = field(default_factory=dict)
    """The adapters of each base that its workers hold for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One controller's corridor; ``plan``, ``pool`` and ``build`` are the pure stages."""

    clock: Clock
    registry: RegistryReader
    rollouts: Rollouts
    leases: WorkerLeases
    demand: Demand
    fleet: Fleet
    tables: TablePublisher
    decisions: DecisionLog
    plan: Callable[[Catalogue, Sequence[Seen], FleetView, float], FleetPlan]
    pool: Callable[[FleetPlan, Catalogue, Sequence[Seen], FleetView, float], FleetPlan]
    build: Callable[[Catalogue, Sequence[Seen], RoutingTable, float, float], RoutingTable]
    changes: Callable[[RoutingTable, RoutingTable], Sequence[Decision]]

    async def tick(self) -> Tick:
        """Run one tick and return what is in force after it."""
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
        table = validate(self.build(catalogue, seen, latest, now, view.since))

        if not plan.is_empty:
            await self.fleet.apply(plan)
        if table.number > latest.number:
            await self.tables.publish(table)
        changed = self.changes(latest, table) if table is not latest else ()
        self.decisions.take((*plan.why, *decided, *changed), now)
        pinned = catalogue.pinned_adapters
        return Tick(table=table, deployments=catalogue.staffed, plan=plan, wanted=view.wanted, pinned=pinned)
