"""The workers to start and to drain, so that running workers match the deployments. Pure.

Trade-off: replacing a lost worker at once is right after one accident and wrong for a version that can't start. So the
first death is replaced at once and each further one within the window waits twice as long. A replacement needs room for
one more worker (the surge).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from penstock.control.fleet import why
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.scaling import Target
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId

SURGE = 1
"""Workers above the deployed number that a replacement may add."""
BURST_S = 1.0
"""Deaths of a version within this time count as one accident."""
_GOING = frozenset({WorkerState.DRAINING, WorkerState.STOPPED, WorkerState.FAILED})
_PROVEN = frozenset({WorkerState.READY, WorkerState.SLEEPING})
_WITHOUT_STREAMS = frozenset({state for state in WorkerState if state.is_starting} | {WorkerState.SLEEPING}) - {
    WorkerState.WAKING
}
"""States in which a worker of a scaled version may leave unnamed; requests are held for one that wakes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPolicy:
    """Thresholds in seconds.

    A worker silent for ``lease_s`` is no longer judged by its last report. One silent for ``start_timeout_s`` during
    its start, or for ``silence_s`` later, is replaced. A silent worker that
    served goes on until its successor is proven, for ``start_timeout_s`` at most. The ``n``-th accident within
    ``window_s`` delays the next start by ``first_wait_s * 2 ** (n - 2)``.
    """

    lease_s: float = 5.0
    silence_s: float = 15.0
    start_timeout_s: float = 180.0
    window_s: float = 300.0
    first_wait_s: float = 1.0
    max_wait_s: float = 60.0


class _Replica(NamedTuple):
    worker: WorkerId
    started_at: float
    has_process: bool
    is_draining: bool
    is_silent: bool
    state: WorkerState | None
    work_tokens: int
    patience_s: float = 0.0
    """Seconds of silence after which the worker is replaced."""
    detail: str = ""
    may_serve: bool = False
    """Silent, and its engine served when its agent was last heard."""

    @property
    def counts(self) -> bool:
        return not self.is_draining and not self.is_silent and self.state not in _GOING

    @property
    def must_end(self) -> bool:
        return self.has_process and not self.is_draining and (self.is_silent or self.state is WorkerState.FAILED)

    @property
    def is_ready(self) -> bool:
        return self.state is WorkerState.READY

    @property
    def is_proven(self) -> bool:
        return self.state in _PROVEN


class _Deaths(NamedTuple):
    at: list[float]
    now: float
    policy: FleetPolicy


def plan(catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, now: float, policy: FleetPolicy) -> FleetPlan:
    """Plan nothing if the host can't list its processes; ``now`` is Unix seconds."""
    if not view.is_known:
        return FleetPlan()
    fleet = _by_version(seen, view, now, policy)
    deaths = _deaths(seen, view, now - policy.window_s)
    deployments = {one.version: one for one in catalogue.staffed}
    start: list[VersionId] = []
    drain: list[WorkerId] = []
    reasons: list[Decision] = []
    for version in sorted(deployments.keys() | fleet.keys()):
        wanted, target = deployments.get(version, Deployment(version=version, replicas=0)), view.targets.get(version)
        if target is not None:
            wanted = replace(wanted, replicas=target.workers)
        replicas = fleet.get(version, [])
        counted = [replica for replica in replicas if replica.counts]
        kept = _kept(wanted, replicas, counted)
        leaving = _leaving(wanted, [one for one in replicas if one.worker not in kept], counted, target)
        room = wanted.replicas + SURGE - len(counted) - len(kept)
        coming = _coming(wanted, replicas, counted, room, _Deaths(deaths.get(version, []), now, policy))
        drain += [WorkerId(one.target) for one in leaving]
        start += [VersionId(one.target) for one in coming if one.what == "start"]
        reasons += [*leaving, *coming]
    return FleetPlan(
        start=tuple(start),
        drain=tuple(sorted(drain)),
        why=tuple(reasons),
        sleep=tuple(worker for target in view.targets.values() for worker in target.slept),
        wake=tuple(worker for target in view.targets.values() for worker in target.woken),
    )


def _kept(wanted: Deployment, replicas: list[_Replica], counted: list[_Replica]) -> set[WorkerId]:
    """Silent workers may serve: keep as many as there are too few proven ones."""
    missing = max(0, wanted.replicas - sum(replica.is_proven for replica in counted))
    return {replica.worker for replica in [one for one in replicas if one.must_end and one.may_serve][:missing]}


def _leaving(
    wanted: Deployment, replicas: list[_Replica], counted: list[_Replica], target: Target | None
) -> list[Decision]:
    ending = [
        why.silent(one.worker, one.patience_s) if one.is_silent else why.failed(one.worker, one.detail)
        for one in replicas
        if one.must_end
    ]
    superfluous = (
        why.surplus(one.worker, wanted, len(counted), outdated=_is_outdated(wanted, one))
        for one in _superfluous(wanted, counted, target)
    )
    return [*ending, *superfluous]


def _coming(
    wanted: Deployment, replicas: list[_Replica], counted: list[_Replica], room: int, deaths: _Deaths
) -> list[Decision]:
    is_draining = any(replica.is_draining for replica in replicas)
    missing = max(0, min(room, _missing(wanted, counted, is_draining=is_draining)))
    if missing and deaths.now < _next_start_at(deaths.at, deaths.policy):
        return [why.wait(wanted, deaths.at, deaths.policy.window_s)]
    return [why.start(wanted, len(counted), replaces=len(counted) >= wanted.replicas)] * missing


def _missing(wanted: Deployment, counted: list[_Replica], *, is_draining: bool) -> int:
    """Return the workers to start: up to the deployed number, and one as a replacement if none is draining."""
    is_renewing = not is_draining and any(_is_outdated(wanted, replica) for replica in counted)
    target = wanted.replicas + (SURGE if is_renewing and wanted.replicas else 0)
    return max(0, target - len(counted))


def _superfluous(wanted: Deployment, counted: list[_Replica], target: Target | None) -> list[_Replica]:
    """Outdated workers once their successors are proven, else surplus ones: unproven and sleeping ones first, then the
    idlest; of a scaled version only named ones and those without streams.
    """
    if len(counted) <= wanted.replicas:
        return []
    counted = sorted(
        counted,
        key=lambda replica: (
            not _is_outdated(wanted, replica),
            target is None or replica.worker not in target.ended,
            replica.is_proven,
            replica.is_ready,
            replica.work_tokens,
            replica.worker,
        ),
    )
    proven = sum(replica.is_proven for replica in counted)
    drained: list[_Replica] = []
    for replica in counted[: len(counted) - wanted.replicas]:
        proven_after = proven - replica.is_proven
        if _is_outdated(wanted, replica) and replica.is_proven and proven_after < wanted.replicas:
            break
        if target is not None and not _may_leave(wanted, replica, target):
            continue
        drained.append(replica)
        proven = proven_after
    return drained


def _may_leave(wanted: Deployment, replica: _Replica, target: Target) -> bool:
    is_named = replica.worker in target.ended or _is_outdated(wanted, replica)
    return is_named or replica.state in _WITHOUT_STREAMS


def _is_outdated(wanted: Deployment, replica: _Replica) -> bool:
    return replica.started_at < wanted.renew_before or replica.worker in wanted.renew


def _next_start_at(deaths: list[float], policy: FleetPolicy) -> float:
    bursts = _bursts(deaths)
    if bursts <= 1:
        return -math.inf
    wait_s = min(policy.max_wait_s, policy.first_wait_s * 2.0 ** min(bursts - 2, 30))
    return max(deaths) + wait_s


def _bursts(deaths: list[float]) -> int:
    count, began = 0, -math.inf
    for at in sorted(deaths):
        if at - began >= BURST_S:
            count, began = count + 1, at
    return count


def _deaths(seen: Iterable[Seen], view: FleetView, after: float) -> Mapping[VersionId, list[float]]:
    last: dict[tuple[VersionId, WorkerId], float] = {}
    for one in seen:
        if one.report.state is WorkerState.FAILED:
            last[one.report.version, one.report.worker] = one.at
    for death in view.deaths:
        key = (death.version, death.worker)
        last[key] = min(last.get(key, death.at), death.at)
    found: dict[VersionId, list[float]] = defaultdict(list)
    for (version, _), at in last.items():
        if at >= after:
            found[version].append(at)
    return found


def _by_version(
    seen: Sequence[Seen], view: FleetView, now: float, policy: FleetPolicy
) -> Mapping[VersionId, list[_Replica]]:
    reports = {one.report.worker: one for one in view.living(seen)}
    fleet: dict[VersionId, list[_Replica]] = defaultdict(list)
    for running in sorted(view.running, key=attrgetter("worker")):
        fleet[running.version].append(_local(running, reports.pop(running.worker, None), view.since, now, policy))
    for worker, one in sorted(reports.items()):
        if now - one.at < policy.lease_s:
            fleet[one.report.version].append(_external(worker, one, now))
    return fleet


def _local(running: Running, last: Seen | None, since: float, now: float, policy: FleetPolicy) -> _Replica:
    is_fresh = last is not None and now - last.at < policy.lease_s
    reported_at = max(running.started_at, since, last.at if last else -math.inf)
    patience_s = policy.silence_s if last else policy.start_timeout_s
    silent_s = now - reported_at
    return _Replica(
        worker=running.worker,
        started_at=running.started_at,
        has_process=True,
        is_draining=running.draining,
        is_silent=silent_s >= patience_s,
        state=last.report.state if last and is_fresh else None,
        work_tokens=last.report.load.queued_tokens if last else 0,
        patience_s=patience_s,
        detail=last.report.detail if last else "",
        may_serve=last is not None and last.report.state.serves and silent_s < policy.start_timeout_s,
    )


def _external(worker: WorkerId, last: Seen, now: float) -> _Replica:
    """Replace it only by name, since its age is unknown."""
    return _Replica(
        worker=worker,
        started_at=now,
        has_process=False,
        is_draining=False,
        is_silent=False,
        state=last.report.state,
        work_tokens=last.report.load.queued_tokens,
    )
