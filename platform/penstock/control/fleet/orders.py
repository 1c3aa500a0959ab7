"""What workers were told, by the host's signals and in the answers to their heartbeats.

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
    """A host that remembers whom it told to go. Fits `control.loop.Fleet`."""

    def __init__(self, host: Host) -> None:
        """Take the host; nobody was told anything."""
        self._host = host
        self._since = 0.0
        self._told_to_go: dict[WorkerId, None] = {}
        self._kept = 1000

    def listen_from(self, now: float) -> None:
        """Hold silence before Unix second ``now`` against nobody: this controller was not listening."""
        self._since = now

    def wants_drained(self, worker: WorkerId) -> bool:
        """Tell whether this worker was told to go."""
        return worker in self._told_to_go

    async def view(self) -> FleetView:
        """Return the host's view; who was told to go by an earlier controller counts as told."""
        view = replace(await self._host.view(), since=self._since)
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
        self._told_to_go[worker] = None
        while len(self._told_to_go) > self._kept:
            del self._told_to_go[next(iter(self._told_to_go))]
