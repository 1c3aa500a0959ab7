"""Orders to workers, sent in the answers to their heartbeats; drains are also sent by the host's signals.

A worker that another host started can be ordered in no other way. A drain is never withdrawn. Sleep and wake orders
hold while the controller that decided them leads; any other controller lets each worker keep its state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.domain.fleet.versions import FleetPlan, FleetView
from penstock.domain.fleet.worker import WorkerOrder, WorkerState
from penstock.domain.ids import VersionId, WorkerId


class Host(Protocol):
    async def view(self) -> FleetView: ...

    async def apply(self, plan: FleetPlan) -> None: ...


class Orders:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._since = 0.0
        self._here: frozenset[WorkerId] = frozenset()
        self._draining: dict[WorkerId, bool] = {}
        """Workers told to drain, and whether the host had a process of them."""
        self._told: dict[WorkerId, WorkerOrder] = {}
        self._kept = 1000
        self._pinned: Mapping[VersionId, tuple[VersionId, ...]] | None = None
        self._batch_slots: Mapping[VersionId, int | None] = {}
        self._ahead: Mapping[WorkerId, Sequence[VersionId]] | None = None
        self.held: tuple[str, ...] = ()

    def listen_from(self, now: float) -> None:
        """Earlier silence does not count: this controller did not listen then."""
        self._since = now

    def forget(self) -> None:
        self._told, self._pinned, self._batch_slots, self._ahead = {}, None, {}, None

    def pin(self, adapters: Mapping[VersionId, tuple[VersionId, ...]]) -> None:
        self._pinned = adapters

    def pinned(self, version: VersionId) -> tuple[VersionId, ...] | None:
        return None if self._pinned is None else self._pinned.get(version, ())

    def fetch(self, ahead: Mapping[WorkerId, Sequence[VersionId]]) -> None:
        self._ahead = ahead

    def ahead(self, worker: WorkerId) -> tuple[VersionId, ...] | None:
        return None if self._ahead is None else tuple(self._ahead.get(worker, ()))

    def share(self, batch_slots: Mapping[VersionId, int | None]) -> None:
        self._batch_slots = batch_slots

    def batch_slots(self, version: VersionId) -> int | None:
        return self._batch_slots.get(version)

    def desired(self, worker: WorkerId, state: WorkerState) -> WorkerOrder:
        """Return the worker's order; without one, the order to keep its state."""
        if worker in self._draining:
            return WorkerOrder.DRAIN
        as_it_is = WorkerOrder.SLEEP if state is WorkerState.SLEEPING else WorkerOrder.SERVE
        return self._told.get(worker, as_it_is)

    def wants_drained(self, worker: WorkerId) -> bool:
        return worker in self._draining

    async def view(self) -> FleetView:
        """A worker that an earlier controller ordered to drain counts as draining."""
        view = replace(await self._host.view(), since=self._since, orders=dict(self._told))
        self.held = view.held
        self._here = frozenset(running.worker for running in view.running)
        for running in view.running:
            if running.draining:
                self._note(running.worker)
        if not view.is_known:
            return view
        ended = frozenset(worker for worker, was_here in self._draining.items() if was_here) - self._here
        return replace(view, ended=ended)

    async def apply(self, plan: FleetPlan) -> None:
        for worker in plan.drain:
            self._note(worker)
        for worker in plan.sleep:
            self._tell(worker, WorkerOrder.SLEEP)
        for worker in plan.wake:
            self._tell(worker, WorkerOrder.SERVE)
        await self._host.apply(plan)

    def _tell(self, worker: WorkerId, order: WorkerOrder) -> None:
        self._told.pop(worker, None)
        self._told[worker] = order
        _cut(self._told, self._kept)

    def _note(self, worker: WorkerId) -> None:
        self._draining[worker] = self._draining.get(worker, False) or worker in self._here
        _cut(self._draining, self._kept)


def _cut(known: dict[WorkerId, WorkerOrder] | dict[WorkerId, bool], most: int) -> None:
    while len(known) > most:
        del known[next(iter(known))]
