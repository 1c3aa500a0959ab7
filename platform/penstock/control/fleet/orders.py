"""Drain orders: by the host's signals, and in the answers to workers' heartbeats.

The answer is the only way to a worker that no host of ours started, and a second way to one that a signal missed.
"""

from dataclasses import replace
from typing import Protocol

from penstock.domain.fleet import FleetPlan, FleetView
from penstock.domain.ids import WorkerId


class Host(Protocol):
    """Starts and stops worker processes (local supervisor, Kubernetes)."""

    async def view(self) -> FleetView:
        """Workers whose process exists, and those that died lately."""
        ...

    async def apply(self, plan: FleetPlan) -> None:
        """Start and drain."""
        ...


class Orders:
    """A host that remembers which workers it has ordered to drain. Fits `control.loop.Fleet`."""

    def __init__(self, host: Host) -> None:
        """Take the host; nothing is ordered yet."""
        self._host = host
        self._since = 0.0
        self._draining: dict[WorkerId, None] = {}
        self._kept = 1000
        self.held: tuple[str, ...] = ()
        """What the host could not bring about when it was last asked, in words."""

    def listen_from(self, now: float) -> None:
        """Hold silence before Unix second ``now`` against nobody: this controller was not listening."""
        self._since = now

    def wants_drained(self, worker: WorkerId) -> bool:
        """Return whether this worker has been ordered to drain."""
        return worker in self._draining

    async def view(self) -> FleetView:
        """Return the host's view; orders of an earlier controller count too."""
        view = replace(await self._host.view(), since=self._since)
        self.held = view.held
        for running in view.running:
            if running.draining:
                self._note(running.worker)
        return view

    async def apply(self, plan: FleetPlan) -> None:
        """Start and drain, and remember."""
        for worker in plan.drain:
            self._note(worker)
        await self._host.apply(plan)

    def _note(self, worker: WorkerId) -> None:
        self._draining[worker] = None
        while len(self._draining) > self._kept:
            del self._draining[next(iter(self._draining))]
