"""The life of a decision: one tick, in order. A tick that fails changes nothing.

registry (what exists) → fleet (what runs, what is missing) → publish ``RoutingTable(number + 1)``

Rollout (whose share) and the autoscaler (how many) take their places between these as they come.
Ports are read before and acted on after a stage, never during: the stages are pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.model import ModelVersion
from penstock.domain.table import Route, RoutingTable, validate
from penstock.domain.worker import WorkerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How many workers of a version there should be."""

    version: VersionId
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What exists: versions, aliases, and what of it should run."""

    versions: tuple[ModelVersion, ...]
    routes: tuple[Route, ...]
    deployments: tuple[Deployment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A worker's last heartbeat and when it came (Unix seconds)."""

    report: WorkerReport
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What to change: versions to start a worker of (repeated per worker), workers to drain."""

    start: tuple[VersionId, ...] = ()
    drain: tuple[WorkerId, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True where nothing is to be done."""
        return not self.start and not self.drain


class RegistryReader(Protocol):
    """What exists."""

    async def catalogue(self) -> Catalogue:
        """Read it, or raise ``StoreUnavailable``."""
        ...


class WorkerLeases(Protocol):
    """Who reported lately."""

    async def seen(self) -> Sequence[Seen]:
        """All leases that are not yet forgotten."""
        ...


class Fleet(Protocol):
    """Starts and stops worker processes (local supervisor, Kubernetes)."""

    async def running(self) -> Sequence[tuple[WorkerId, VersionId]]:
        """Workers whose process exists, whether they report or not."""
        ...

    async def apply(self, plan: FleetPlan) -> None:
        """Start and drain."""
        ...


class TablePublisher(Protocol):
    """Where gateways get their table from."""

    async def latest(self) -> RoutingTable:
        """The last published table, or the empty one."""
        ...

    async def publish(self, table: RoutingTable) -> None:
        """Store and push it; refuse a number that is not newer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One controller's corridor; ``plan`` and ``build`` are the pure stages."""

    clock: Clock
    registry: RegistryReader
    leases: WorkerLeases
    fleet: Fleet
    tables: TablePublisher
    plan: Callable[[Catalogue, Sequence[Seen], Sequence[tuple[WorkerId, VersionId]], float], FleetPlan]
    build: Callable[[Catalogue, Sequence[Seen], RoutingTable, float], RoutingTable]

    async def tick(self) -> RoutingTable:
        """Run one tick and return the table in force after it."""
        catalogue = await self.registry.catalogue()
        seen = await self.leases.seen()
        running = await self.fleet.running()
        now = self.clock.now()

        plan = self.plan(catalogue, seen, running, now)
        if not plan.is_empty:
            await self.fleet.apply(plan)

        latest = await self.tables.latest()
        table = self.build(catalogue, seen, latest, now)
        if table.number > latest.number:
            await self.tables.publish(validate(table))
        return table
