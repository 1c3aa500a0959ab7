"""The pool's part of a plan: starts within the memory, wakes and sleeps. Pure.

A new version is started, proven by its golden prompts and kept until another claim needs its memory. Sleeping workers
count as existing; surplus ones are drained first.

The autoscaler decides a scaled version's number of workers: the ones that it wakes are claims, and a busy worker does
not claim a second one.

Trade-off: only workers with a process on this host are in the pool.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.capacity import uses
from penstock.capacity.memory import crowded_out, sizes
from penstock.control.pool import why
from penstock.control.pool.packing import PlaceClaim, PoolPolicy, Rank, Resident, Stay, pack
from penstock.domain.fleet.scaling import Target
from penstock.domain.fleet.versions import Catalogue, FleetPlan, FleetView, Running, Seen, Wanted
from penstock.domain.fleet.worker import WorkerOrder, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId

_ENDING = frozenset({WorkerState.DRAINING, WorkerState.STOPPED, WorkerState.FAILED})


def plan_pool(
    step: FleetPlan, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, now: float, *, pool: PoolPolicy
) -> FleetPlan:
    if not pool.limit_bytes or not view.is_known:
        return step
    scene = _Scene.of(catalogue, seen, view, now, pool.lease_s)
    claims = [*scene.claims(view.targets), *scene.starts(step.start)]
    packed = pack(scene.residents, claims, scene.kept, now, pool)
    started = {*packed.start}
    unfit = [one for one in scene.residents if one.size_bytes > pool.limit_bytes and one.stay is Stay.AWAY]
    ended = [why.given_up(one.worker, one.size_bytes, pool.limit_bytes) for one in unfit]
    return replace(
        step,
        start=packed.start,
        drain=tuple(sorted({*step.drain, *(one.worker for one in unfit)})),
        wake=packed.wake,
        sleep=tuple(dict.fromkeys((*packed.sleep, *step.sleep))),
        held_bytes=sum(one.size_bytes for one in scene.residents if one.stay is not Stay.AWAY),
        why=(*(one for one in step.why if one.what != "start" or one.target in started), *packed.why, *ended),
        unfit=_unfit(catalogue, scene.held, pool.limit_bytes),
    )


def _unfit(catalogue: Catalogue, held: Mapping[VersionId, int], limit_bytes: int) -> tuple[str, ...]:
    found = sorted((one.version, held.get(one.version, 0)) for one in catalogue.staffed if one.replicas)
    large = [(version, why.does_not_fit(needs, limit_bytes)) for version, needs in found if needs > limit_bytes]
    crowded = crowded_out(catalogue, limit_bytes)
    beside = [(version, why.is_crowded_out(needs, limit_bytes)) for version, needs in sorted(crowded.items())]
    return tuple(f"{version} {says}" for version, says in (*large, *beside))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    residents: tuple[Resident, ...]
    wanted: Mapping[VersionId, Wanted]
    kept: frozenset[VersionId]
    held: Mapping[VersionId, int]

    @classmethod
    def of(cls, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, now: float, lease_s: float) -> "_Scene":
        held = sizes(catalogue.versions)
        last = {one.report.worker: one for one in seen}
        bases = _bases(catalogue)
        return cls(
            residents=tuple(
                _resident(
                    one, last.get(one.worker), view.orders.get(one.worker), held.get(one.version, 0), now, lease_s
                )
                for one in view.running
            ),
            wanted=_waited_for(view.wanted, bases),
            kept=catalogue.kept | {bases.get(one, one) for one in view.moving},
            held=held,
        )

    def claims(self, targets: Mapping[VersionId, Target]) -> Iterator[PlaceClaim]:
        of: dict[VersionId, list[Resident]] = defaultdict(list)
        for resident in self.residents:
            of[resident.version].append(resident)
        for version, residents in of.items():
            sleeping = sorted((one for one in residents if one.stay in _ASLEEP), key=_lightest)
            awake = [one for one in residents if one.stay in _AWAKE]
            if sleeping:
                yield from self._claims(version, sleeping, awake, targets.get(version))

    def _claims(
        self, version: VersionId, sleeping: list[Resident], awake: list[Resident], target: Target | None
    ) -> Iterator[PlaceClaim]:
        if version in self.kept:
            held_since = math.inf if awake else self._held_since(version)
            for one in sleeping:
                claim = _claim(one, Rank.KEPT, "never_sleeps", "pinned, or in a rollout", -math.inf)
                yield replace(claim, held_since=held_since)
        elif not awake and (wanted := self.wanted.get(version)) is not None:
            held = f"{wanted.requests} with {wanted.tokens} tokens"
            claim = _claim(sleeping[0], Rank.WAITED_FOR, "requests_held", held, wanted.since)
            yield replace(claim, held_since=wanted.since)
        elif target is not None:
            for one in sleeping:
                if one.worker in target.woken:
                    yield _claim(one, Rank.SECOND, "workers_missing", f"{target.workers} are to exist", math.inf)
        elif awake and all(one.is_busy and one.stay is Stay.HERE for one in awake):
            yield _claim(sleeping[0], Rank.SECOND, "workers_busy", f"all of {len(awake)}", math.inf)

    def starts(self, versions: Iterable[VersionId]) -> Iterator[PlaceClaim]:
        for version in versions:
            wanted = self.wanted.get(version)
            rank = Rank.KEPT if version in self.kept else Rank.WAITED_FOR if wanted else Rank.NEW
            yield PlaceClaim(
                version=version,
                size_bytes=self.held.get(version, 0),
                rank=rank,
                signal="workers_missing",
                value="to be started and proven",
                since=-math.inf if version in self.kept else self._held_since(version),
                held_since=self._held_since(version),
            )

    def _held_since(self, version: VersionId) -> float:
        wanted = self.wanted.get(version)
        return wanted.since if wanted else math.inf


_ASLEEP = frozenset({Stay.AWAY, Stay.FALLING_ASLEEP})
_AWAKE = frozenset({Stay.COMING, Stay.HERE})


def _lightest(resident: Resident) -> tuple[bool, float, WorkerId]:
    return resident.stay is Stay.AWAY, resident.wake_s, resident.worker


def _claim(resident: Resident, rank: Rank, signal: str, value: str, since: float) -> PlaceClaim:
    return PlaceClaim(
        version=resident.version,
        size_bytes=resident.size_bytes,
        rank=rank,
        signal=signal,
        value=value,
        worker=resident.worker,
        since=since,
        holds_bytes=resident.size_bytes if resident.stay is Stay.FALLING_ASLEEP else 0,
    )


def _bases(catalogue: Catalogue) -> Mapping[VersionId, VersionId]:
    by_digest = {one.digest: one.id for one in catalogue.versions}
    adapters = [(one.id, one.manifest.adapter.base) for one in catalogue.versions if one.manifest.adapter is not None]
    return {version: by_digest[base] for version, base in adapters if base in by_digest}


def _waited_for(wanted: Iterable[Wanted], bases: Mapping[VersionId, VersionId]) -> Mapping[VersionId, Wanted]:
    """Held requests that have waited longest; those for an adapter count for its base."""
    found: dict[VersionId, Wanted] = {}
    for one in wanted:
        version = bases.get(one.version, one.version)
        known = found.get(version)
        found[version] = one if known is None or one.since < known.since else known
    return found


def _resident(
    running: Running, last: Seen | None, order: WorkerOrder | None, size_bytes: int, now: float, lease_s: float
) -> Resident:
    report = last.report if last is not None and now - last.at < lease_s else None
    return Resident(
        worker=running.worker,
        version=running.version,
        size_bytes=size_bytes,
        stay=Stay.LEAVING if running.draining else stay_of(report, order),
        is_busy=report is not None and uses.is_busy(report),
        since=last.since if last else 0.0,
        used_at=last.used_at if last else 0.0,
        uses_per_s=uses.uses_per_s(last, now) if last else 0.0,
        wake_s=report.restart_s if report else 0.0,
    )


def stay_of(report: WorkerReport | None, order: WorkerOrder | None) -> Stay:
    if report is None:
        return Stay.COMING
    if report.state in _ENDING:
        return Stay.LEAVING
    if report.state is WorkerState.SLEEPING:
        if order is WorkerOrder.SERVE:
            return Stay.COMING
        return Stay.FALLING_ASLEEP if report.holds_memory else Stay.AWAY
    if report.state is not WorkerState.READY:
        return Stay.COMING
    return Stay.FALLING_ASLEEP if order is WorkerOrder.SLEEP else Stay.HERE
