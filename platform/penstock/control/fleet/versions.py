"""Plans for a host that starts workers by number (Kubernetes): versions are added, renewed, scaled, removed. Pure.

A version leaves in three steps: its workers are told to drain and leave the routing table, their streams end, the host
drops the version. A worker that scales in is drained once it is idle; then the number falls.

Trade-off: a drained worker that can't be asked about its streams gets only ``silence_s``.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

from penstock.control.fleet import why
from penstock.control.fleet.plan import FleetPolicy
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen, Served
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import ModelVersion

_ENDED = frozenset({WorkerState.STOPPED, WorkerState.FAILED})


def plan_versions(
    catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, now: float, policy: FleetPolicy
) -> FleetPlan:
    if not view.is_known:
        return FleetPlan()
    wanted = {one.version: one for one in catalogue.staffed if one.replicas}
    versions = {one.id: one for one in catalogue.versions}
    leaving = {version for version in view.placed if version not in wanted}
    reports = {one.report.worker: one for one in seen}
    free = {one.worker for one in view.running if _is_free(one, reports.get(one.worker), view.since, now, policy)}
    surplus = {worker for target in view.targets.values() for worker in target.ended}
    drained = [one for one in view.running if _must_drain(one, wanted, surplus)]
    return FleetPlan(
        why=tuple(_why(one, wanted.get(one.version)) for one in drained),
        served=tuple(_served(wanted[one], versions[one], view) for one in sorted(wanted.keys() & versions.keys())),
        drain=tuple(sorted(one.worker for one in drained)),
        cached=_cached(seen),
        withdrawn=tuple(sorted(version for version in leaving if _busy(version, view, free) == 0)),
        ended=tuple(sorted(one.worker for one in view.running if one.worker in free and one.version in wanted)),
        sleep=tuple(worker for target in view.targets.values() for worker in target.slept),
        wake=tuple(worker for target in view.targets.values() for worker in target.woken),
    )


def _cached(seen: Sequence[Seen]) -> Mapping[VersionId, Sequence[WorkerId]]:
    found = defaultdict[VersionId, list[WorkerId]](list)
    for one in seen:
        for version in one.report.cached:
            found[version].append(one.report.worker)
    return found


def _why(running: Running, deployment: Deployment | None) -> Decision:
    if deployment is not None:
        outdated = running.worker in deployment.renew
        return why.surplus(running.worker, deployment, deployment.replicas, outdated=outdated)
    return why.surplus(running.worker, Deployment(version=running.version, replicas=0), 1, outdated=False)


def _served(deployment: Deployment, version: ModelVersion, view: FleetView) -> Served:
    """Count a worker that is to end until the host has drained it, else the smaller number would end another one."""
    manifest, target = version.manifest, view.targets.get(version.id)
    marked = {one.worker for one in view.running if one.draining}
    return Served(
        version=version.id,
        least=deployment.replicas if target is None else target.least,
        workers=deployment.replicas if target is None else target.workers + len(set(target.ended) - marked),
        is_scaled=target is not None,
        gpus=manifest.engine.tensor_parallel_size,
        held_bytes=manifest.size_bytes + manifest.engine.kv_cache_bytes * manifest.engine.tensor_parallel_size,
        renew_before=deployment.renew_before,
    )


def _must_drain(running: Running, wanted: Mapping[VersionId, Deployment], surplus: Container[WorkerId]) -> bool:
    if running.draining:
        return False
    deployment = wanted.get(running.version)
    return deployment is None or running.worker in surplus or running.worker in deployment.renew


def _busy(version: VersionId, view: FleetView, free: set[WorkerId]) -> int:
    return sum(one.version == version and one.worker not in free for one in view.running)


def _is_free(running: Running, last: Seen | None, since: float, now: float, policy: FleetPolicy) -> bool:
    """Count a silent worker as without streams only after ``silence_s``."""
    if not running.draining:
        return False
    heard_at = max(running.started_at, since, last.at if last else 0.0)
    if now - heard_at >= policy.silence_s:
        return True
    if last is None or now - last.at >= policy.lease_s:
        return False
    load, state = last.report.load, last.report.state
    return state in _ENDED or (state is WorkerState.DRAINING and load.running + load.waiting == 0)
