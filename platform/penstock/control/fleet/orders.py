"""Orders to workers: drains by the host's signals too, all of them in the answers to workers' heartbeats.

The answer is the only way to a worker that no host of ours started, and a second way to one that a signal missed.

Who was told to drain is told so for ever. Who was told to sleep or to wake hears it from the controller that decided
it, while that leads: one that knows nothing of it, a new one or one that stands by, leaves each worker as it is.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from penstock.domain.fleet.versions import FleetPlan, FleetView
from penstock.domain.fleet.worker import WorkerOrder, WorkerState
from penstock.domain.ids import VersionId, WorkerId


class Host(Protocol):
    """Starts and stops worker processes (local supervisor, Kubernetes)."""

    async def view(self) -> FleetView:
        """Workers whose process exists, and those that died lately."""
        ...

    async def apply(self, plan: FleetPlan) -> None:
        """Start and drain."""
        ...


class Warmth(Protocol):
    """The one way to have a worker awake or asleep, for whoever decides it; told with its next heartbeat."""

    def promote(self, worker: WorkerId) -> None:
        """Have it wake and serve."""
        ...

    def park(self, worker: WorkerId) -> None:
        """Have it give its engine's memory back once its streams have ended, and stay."""
        ...


class Orders:
    """A host that remembers what it has ordered its workers. Fits `control.loop.Fleet` and ``Warmth``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._since = 0.0
        self._draining: dict[WorkerId, None] = {}
        self._told: dict[WorkerId, WorkerOrder] = {}
        self._kept = 1000
        self._pinned: Mapping[VersionId, tuple[VersionId, ...]] | None = None
        self.held: tuple[str, ...] = ()
        """What the host could not bring about when it was last asked, in words."""

    def listen_from(self, now: float) -> None:
        """Hold silence before Unix second ``now`` against nobody: this controller was not listening."""
        self._since = now

    def forget(self) -> None:
        """Forget who is to sleep and who to wake, and what is pinned: another controller decides that now."""
        self._told, self._pinned = {}, None

    def pin(self, adapters: Mapping[VersionId, tuple[VersionId, ...]]) -> None:
        """Have the workers of these versions load these adapters first and hold them for good, and no others."""
        self._pinned = adapters

    def pinned(self, version: VersionId) -> tuple[VersionId, ...] | None:
        """Return the adapters that this version's workers are to hold for good; None where it is not known here."""
        return None if self._pinned is None else self._pinned.get(version, ())

    def desired(self, worker: WorkerId, state: WorkerState) -> WorkerOrder:
        """Return what this worker is to do, which says that it is in this state; unordered, to stay in it."""
        if worker in self._draining:
            return WorkerOrder.DRAIN
        as_it_is = WorkerOrder.SLEEP if state is WorkerState.SLEEPING else WorkerOrder.SERVE
        return self._told.get(worker, as_it_is)

    def wants_drained(self, worker: WorkerId) -> bool:
        """Return whether this worker has been ordered to drain."""
        return worker in self._draining

    async def view(self) -> FleetView:
        """Return the host's view; orders of an earlier controller count too."""
        view = replace(await self._host.view(), since=self._since, orders=dict(self._told))
        self.held = view.held
        for running in view.running:
            if running.draining:
                self._note(running.worker)
        return view

    async def apply(self, plan: FleetPlan) -> None:
        """Start and drain, and remember who is to go, to sleep and to wake."""
        for worker in plan.drain:
            self._note(worker)
        for worker in plan.sleep:
            self.park(worker)
        for worker in plan.wake:
            self.promote(worker)
        await self._host.apply(plan)

    def promote(self, worker: WorkerId) -> None:
        self._tell(worker, WorkerOrder.SERVE)

    def park(self, worker: WorkerId) -> None:
        self._tell(worker, WorkerOrder.SLEEP)

    def _tell(self, worker: WorkerId, order: WorkerOrder) -> None:
        self._told.pop(worker, None)
        self._told[worker] = order
        _cut(self._told, self._kept)

    def _note(self, worker: WorkerId) -> None:
        self._draining[worker] = None
        _cut(self._draining, self._kept)


def _cut(known: dict[WorkerId, WorkerOrder] | dict[WorkerId, None], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]
