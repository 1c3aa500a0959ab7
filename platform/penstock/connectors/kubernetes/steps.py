"""Derives ordered steps from a plan and the cluster's state. Pure.

Absence from a plan removes nothing: only withdrawn or ended objects that the plan names are removed, under the
controller's label.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.admission import Admit
from penstock.connectors.kubernetes.kinds import BUDGET, DEPLOYMENT, POD, SCALER, ObjectKind
from penstock.connectors.kubernetes.manifests import Written, written
from penstock.connectors.kubernetes.placing import place, why_nowhere
from penstock.connectors.kubernetes.pods import counts, is_ready, is_told_to_go, version_of, workload_of
from penstock.connectors.kubernetes.pools import Pools
from penstock.domain.fleet.versions import FleetPlan, Served

Objects = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    written: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The pod is also marked to be removed first on scale-in."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    kind: ObjectKind
    name: str
    uid: str = ""


Step = Apply | Admit | Drain | Delete


def steps(
    plan: FleetPlan, workloads: Objects, pods: Objects, pools: Pools, held: Container[str] = ()
) -> Iterator[Step]:
    """Objects to apply, then removals. Other Deployments do not wait for ``held`` ones, which can't be written."""
    standing = [one for served in plan.served or () for one in written(served, pools)]
    waits = set(_waiting(standing, workloads, held))
    yield from (Apply(written=one) for one in standing if one.kind is not DEPLOYMENT or one.name not in waits)
    if plan.served is not None:
        yield from _leaving(plan, plan.served, workloads)
    for worker in plan.drain:
        if worker in pods and not is_told_to_go(pods[worker]):
            yield Drain(name=worker)
    if plan.ended:
        yield from _ended(plan, pods, told_numbers(plan.served or (), pods, pools))


def _ended(plan: FleetPlan, pods: Objects, numbers: Mapping[str, int]) -> Iterator[Step]:
    """Leave out pods that a smaller number of replicas removes anyway: the Deployment would replace a deleted one."""
    spare = Counter(workload_of(pod) for pod in pods.values() if counts(pod))
    spare.subtract(numbers)
    for worker in plan.ended:
        if worker not in pods or not counts(pods[worker]):
            continue
        name = workload_of(pods[worker])
        if name in numbers and spare[name] > 0:
            spare[name] -= 1
        else:
            yield Delete(kind=POD, name=worker, uid=pods[worker]["metadata"]["uid"])


def told_numbers(served: Iterable[Served], pods: Objects, pools: Pools) -> dict[str, int]:
    """Return replicas by Deployment, bounded by the machines' room.

    Serving pods of a scaled version stay unless drained.
    """
    ready = Counter(workload_of(pod) for pod in pods.values() if is_ready(pod) and not is_told_to_go(pod))
    found: dict[str, int] = {}
    for one in served:
        placed = place(one, pools.devices)
        if placed is not None:
            name = names.workload(one.version, placed.device.name)
            number = max(one.workers, ready[name]) if one.is_scaled else one.workers
            found[name] = min(number, max(placed.size.most, one.least))
    return found


def _waiting(standing: list[Written], workloads: Objects, held: Container[str]) -> Iterator[str]:
    """Update one version at a time: an update uses a further machine, and a bad template would spread."""
    is_free = not any(is_exchanging(one) for one in workloads.values())
    for one in standing:
        live = workloads.get(one.name)
        if one.kind is not DEPLOYMENT or live is None or _template(live) == _template(one.body) or one.name in held:
            continue
        if not is_free:
            yield one.name
        is_free = False


def is_exchanging(workload: Mapping[str, Any]) -> bool:
    """Pods of an older template still run, as for `kubectl rollout status`.

    https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status
    """
    status = workload.get("status", {})
    is_seen = int(status.get("observedGeneration", 0)) >= int(workload["metadata"].get("generation", 0))
    return not is_seen or int(status.get("updatedReplicas", 0)) < int(status.get("replicas", 0))


def stuck(workloads: Objects) -> dict[str, str]:
    """Return workloads with a rolling update beyond its progress deadline, and why: all others wait for it."""
    found = {}
    for name, workload in workloads.items():
        for one in workload.get("status", {}).get("conditions", []):
            if (one.get("type"), one.get("status")) == ("Progressing", "False"):
                do = "make room in its pool, or deploy a template that starts; others are exchanged after it"
                found[name] = f"{name} does not get on with the exchange of its pods ({one.get('reason', '')}): {do}"
    return found


def _template(deployment: Mapping[str, Any]) -> str:
    return str(deployment["metadata"].get("annotations", {}).get(names.TEMPLATE, ""))


def _leaving(plan: FleetPlan, served: tuple[Served, ...], workloads: Objects) -> Iterator[Step]:
    wanted = {one.version for one in served}
    for name, workload in workloads.items():
        version = version_of(workload)
        if not version or version in wanted:
            continue
        yield Delete(kind=SCALER, name=name)  # the number stays as it is while streams end
        if version in plan.withdrawn:
            yield Delete(kind=BUDGET, name=name)
            yield Delete(kind=DEPLOYMENT, name=name, uid=workload["metadata"]["uid"])


def not_placed(served: tuple[Served, ...], workloads: Objects, pools: Pools) -> dict[str, str]:
    """Versions without a device, and workloads of devices that are no longer shipped."""
    found: dict[str, str] = {}
    placed: set[str] = set()
    for one in served:
        objects = {item.name for item in written(one, pools)}
        placed |= objects
        if not objects:
            found[one.version] = why_nowhere(one, pools.devices)
    versions = {one.version for one in served}
    for name, workload in workloads.items():
        if version_of(workload) in versions and name not in placed:
            found[name] = (
                f"{name} stays as it is: its device takes the version no more; withdraw the version, or delete it"
            )
    return found
