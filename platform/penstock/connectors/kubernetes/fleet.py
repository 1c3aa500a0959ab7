"""The Kubernetes fleet: observes workers and applies plans; fits `control.fleet.orders.Host`.

``view`` reads the mirrored state and ``apply`` passes the plan to the background writer: both return at once, so that
an unresponsive cluster delays no routing table.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.admission import Admission
from penstock.connectors.kubernetes.backoff import Backoff
from penstock.connectors.kubernetes.client import NamespaceApi
from penstock.connectors.kubernetes.kinds import DEPLOYMENT, POD
from penstock.connectors.kubernetes.mirror import Mirror
from penstock.connectors.kubernetes.placing import Placed, place
from penstock.connectors.kubernetes.pods import Deaths, Json, is_ready, running, version_of
from penstock.connectors.kubernetes.pools import Pools
from penstock.connectors.kubernetes.scaling import unfollowed
from penstock.connectors.kubernetes.steps import Delete, Step, not_placed, steps, stuck, told_numbers
from penstock.connectors.kubernetes.writer import WriteIntervals, Writer
from penstock.domain.clock import Clock
from penstock.domain.fleet.versions import FleetPlan, FleetView
from penstock.domain.ids import VersionId
from penstock.telemetry.logs import logger

MOST_NODES = 16
"""Nodes named in a pod, the latest first: each is a term of its own, for the API takes one node in a field's term."""


class CachingNodes:
    """Nodes with a version in their cache, so that a new pod of it prefers them.

    Trade-off: learned from ready pods and workers' reports, so a node that evicted the copy is preferred in vain. In
    return nothing needs a right on nodes.
    """

    def __init__(self) -> None:
        self._nodes: dict[VersionId, dict[str, None]] = {}

    def note(self, pod: Json | None) -> None:
        if pod is not None and is_ready(pod):
            self.add(version_of(pod), pod)

    def add(self, version: VersionId, pod: Json) -> None:
        if not (node := pod["spec"].get("nodeName", "")) or not version:
            return
        nodes = self._nodes.setdefault(version, {})
        nodes.pop(node, None)
        nodes[node] = None
        while len(nodes) > MOST_NODES:
            del nodes[next(iter(nodes))]

    def preferred(self, version: VersionId) -> dict[str, Any]:
        """Return the affinity of a pod, empty if no node is known.

        By field, not by host label: Karpenter takes a preferred label for required until it fails, and reads no fields.
        https://github.com/kubernetes-sigs/karpenter/blob/v1.13.0/pkg/controllers/provisioning/scheduling/preferences.go
        """
        nodes = reversed(self._nodes.get(version, {}))
        terms = [
            {
                "weight": 100,
                "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]}]},
            }
            for one in nodes
        ]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}} if terms else {}


PACE = WriteIntervals()
UNFOLLOWED_S = 60.0
"""Seconds for which a Deployment may have other replicas than are told: four periods of the HPA."""
Tell = Callable[[Mapping[str, int]], None]


class KubernetesFleet:
    def __init__(
        self, api: NamespaceApi, pools: Pools, clock: Clock, pace: WriteIntervals = PACE, first_wait_s: float = 1.0
    ) -> None:
        self._pools, self._clock, self._pace = pools, clock, pace
        self._deaths, self._admission = Deaths(clock), Admission(devices=pools.devices)
        self._caching = CachingNodes()
        self._pods = Mirror(api, POD, names.OURS, self._note, Backoff(first_s=first_wait_s))
        self._workloads = Mirror(api, DEPLOYMENT, names.OURS, lambda *_: None, Backoff(first_s=first_wait_s))
        self._writer = Writer(
            api=api,
            clock=clock,
            workloads=self._workloads.objects,
            pace=pace,
            backoff=Backoff(first_s=first_wait_s),
        )
        self._plan, self._planned_at = FleetPlan(), 0.0
        self._not_placed: dict[str, str] = {}
        self._news = asyncio.Event()
        self.tell: Tell = lambda _: None
        """Called with the replicas of each Deployment, at each plan."""
        self._placed: Mapping[VersionId, Placed | None] = {}
        self._differs_since: dict[str, float] = {}
        self._unfollowed: dict[str, str] = {}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in (self._pods.follow(), self._workloads.follow(), self._write())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def view(self) -> FleetView:
        pods = sorted(self._pods.objects.items())
        workloads = self._workloads.objects.values()
        return FleetView(
            running=tuple(found for _, pod in pods if (found := running(pod))),
            deaths=self._deaths.recent(),
            is_known=self._pods.is_known and self._workloads.is_known,
            placed=tuple(sorted({version for one in workloads if (version := version_of(one))})),
            most={version: one.size.most if one else 0 for version, one in self._placed.items()},
            prices={version: price for version, one in self._placed.items() if one and (price := one.dollars_per_hour)},
            devices={version: one.device.name for version, one in self._placed.items() if one},
            held=tuple(sorted((*self._writer.held.values(), *self._not_placed.values(), *self._unfollowed.values()))),
        )

    async def apply(self, plan: FleetPlan) -> None:
        self._plan, self._planned_at = plan, self._clock.monotonic()
        self._news.set()
        for version, workers in plan.cached.items():
            for pod in [self._pods.objects[one] for one in workers if one in self._pods.objects]:
                self._caching.add(version, pod)
        if plan.served is not None and self._pods.is_known:
            numbers = told_numbers(plan.served, self._pods.objects, self._pools)
            self._placed = {one.version: place(one, self._pools.devices) for one in plan.served}
            self._say_unfollowed(numbers)
            self.tell(numbers)

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            plan = self._plan
            self._say_not_placed(plan)
            held = self._writer.held_names(DEPLOYMENT)
            due = list(steps(plan, self._workloads.objects, self._pods.objects, self._pools, held))
            await self._writer.bring_about([*due, *self._admitted()], self._is_fresh)

    def _admitted(self) -> Iterator[Step]:
        pods, now = self._pods.objects, self._clock.now()
        for name in self._admission.overdue(pods, now):
            logger().warning("worker_got_no_machine", worker=name)
            yield Delete(kind=POD, name=name, uid=pods[name]["metadata"]["uid"])
        for step in self._admission.admitted(pods, now):
            yield replace(step, affinity=self._caching.preferred(version_of(pods[step.name])))

    def _note(self, before: Json | None, after: Json | None) -> None:
        self._deaths.note(before, after)
        self._caching.note(after)

    def _is_fresh(self) -> bool:
        is_known = self._pods.is_known and self._workloads.is_known
        return is_known and self._clock.monotonic() - self._planned_at < self._pace.fresh_s

    def _say_unfollowed(self, numbers: Mapping[str, int]) -> None:
        replicas = {name: int(one["spec"].get("replicas", 0)) for name, one in self._workloads.objects.items()}
        found, now = dict(unfollowed(numbers, replicas)), self._clock.monotonic()
        self._differs_since = {name: self._differs_since.get(name, now) for name in found}
        late = {name: says for name, says in found.items() if now - self._differs_since[name] >= UNFOLLOWED_S}
        for name in late.keys() - self._unfollowed.keys():
            logger().warning("number_not_followed", object=name, reason=late[name])
        self._unfollowed = late

    def _say_not_placed(self, plan: FleetPlan) -> None:
        workloads = self._workloads.objects
        found = {**stuck(workloads), **not_placed(plan.served or (), workloads, self._pools)}
        for key in found.keys() - self._not_placed.keys():
            logger().warning("version_not_placed", object=key, reason=found[key])
        self._not_placed = found
