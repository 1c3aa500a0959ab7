"""The routing table from the catalogue and the last heartbeats. Pure and deterministic.

Trade-off: a table per heartbeat would flood gateways; one per membership change would leave them without loads of
workers that they don't send to. So membership is published at once, loads once a second.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from penstock.capacity.memory import crowded_out
from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.fleet.versions import Catalogue, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import NO_VERSION, VersionId, WorkerId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import ModelVersion, Runtime, Task
from penstock.domain.serving.auto import Auto, sound
from penstock.domain.tenancy.owners import Owners, effective
from penstock.formats import abilities

LOAD_EVERY_S = 1.0
UNSEEN = FleetView()
"""The view of a host that tells nothing: only heartbeats count."""
_TOKENIZER = "tokenizer.json"
_WORKER = attrgetter("worker")
_GONE = frozenset({WorkerState.STOPPED, WorkerState.FAILED})


def build(  # noqa: PLR0913  what a tick knows, and two settings
    catalogue: Catalogue,
    seen: Sequence[Seen],
    latest: RoutingTable,
    now: float,
    view: FleetView = UNSEEN,
    *,
    silence_s: float,
    pool_bytes: int = 0,
) -> RoutingTable:
    """``latest`` itself if nothing urgent changed. A worker silent for ``silence_s`` is left out once other workers
    replace it: only its agent is silent, and gateways notice themselves whether its engine answers. 0
    ``pool_bytes``: no pool.
    """
    before = {worker.id: worker for version in latest.versions for worker in version.workers}
    reports = _by_version(_heard(catalogue, seen, before, now - silence_s, view))
    starts = {version.id: version.start_s for version in latest.versions} | starts_s(seen, view.running)
    restarts = {version.id: version.restart_s for version in latest.versions} | restarts_s(seen)
    named = {share.version for route in catalogue.routes for share in route.shares}
    wanted = {deployment.version for deployment in catalogue.deployments if deployment.replicas}
    named |= wanted
    autos = _autos(catalogue)
    named |= {VersionId(rule.to) for auto in autos for rule in auto.rules}
    bases = bases_of(catalogue.versions)
    named |= {bases[version] for version in named & bases.keys()}
    owners, crowded = effective(catalogue.owned, bases), crowded_out(catalogue, pool_bytes)
    kin = kin_starts_s(catalogue.versions, starts, owners)
    packs = {version.id: version.manifest.safety for version in catalogue.versions}
    routes = tuple(sorted(catalogue.routes, key=lambda route: route.alias))

    def table(*, with_load: bool) -> RoutingTable:
        versions = tuple(
            replace(
                _entry(version, _workers(reports[version.id], before, with_load=with_load)),
                start_s=starts.get(bases.get(version.id, version.id), 0.0),
                restart_s=restarts.get(bases.get(version.id, version.id), 0.0),
                kin_start_s=kin.get(bases.get(version.id, version.id), 0.0),
                is_crowded_out=bases.get(version.id, version.id) in crowded,
                is_unwanted=bases.get(version.id, version.id) not in wanted,
                base=bases.get(version.id, NO_VERSION),
                tenants=owners.get(version.id),
                safety=_packs(version, packs.get(bases.get(version.id, NO_VERSION), ())),
            )
            for version in sorted(catalogue.versions, key=lambda version: version.id)
            if version.id in named
        )
        return RoutingTable(number=latest.number + 1, made_at=now, routes=routes, versions=versions, autos=autos)

    is_load_due = not 0 <= now - latest.made_at < LOAD_EVERY_S
    is_first = not latest.number  # also where there is nothing in it: gateways wait for one
    if not is_load_due and not is_first and not _differs(table(with_load=False), latest):
        return latest
    made = table(with_load=True)
    return made if is_first or _differs(made, latest) else latest


def _autos(catalogue: Catalogue) -> tuple[Auto, ...]:
    if not catalogue.autos:
        return ()
    return sound(catalogue.autos, {*(one.alias for one in catalogue.routes), *(one.id for one in catalogue.versions)})


def starts_s(seen: Iterable[Seen], running: Iterable[Running]) -> dict[VersionId, float]:
    """Return seconds of complete starts by version; several starts at once take longer than one."""
    brought_s = {one.worker: one.machine_s + one.image_s for one in running}
    longest: dict[VersionId, float] = {}
    for report in (one.report for one in seen):
        if report.phases and report.phases[-1].phase is WorkerState.WARMING and not _is_wake(report):
            start_s = brought_s.get(report.worker, 0.0) + sum([phase.seconds for phase in report.phases])
            if start_s > longest.get(report.version, 0.0):
                longest[report.version] = start_s
    return {version: round(start_s, 1) for version, start_s in longest.items()}


def kin_starts_s(
    versions: Iterable[ModelVersion], starts: Mapping[VersionId, float], owners: Mapping[VersionId, Owners]
) -> dict[VersionId, float]:
    """For versions without a measured start, take the longest start of the same runtime and task.

    Only versions for all or the same tenants count, so that other tenants' start times stay secret.
    """
    known = [one for one in versions if one.manifest.adapter is None]
    longest: dict[tuple[Runtime, Task, Owners], float] = {}
    kinds = {one.id: (one.manifest.runtime, one.manifest.task) for one in known}
    for version, kind in kinds.items():
        own = (*kind, owners.get(version))
        longest[own] = max(longest.get(own, 0.0), starts.get(version, 0.0))
    return {
        version: max(longest.get((*kind, whose), 0.0) for whose in (None, owners.get(version)))
        for version, kind in kinds.items()
        if not starts.get(version)
    }


def _is_wake(report: WorkerReport) -> bool:
    """The last phases are a wake's, which is shorter than a start."""
    return any(phase.phase is WorkerState.WAKING for phase in report.phases)


def restarts_s(seen: Iterable[Seen]) -> dict[VersionId, float]:
    longest: dict[VersionId, float] = {}
    for report in (one.report for one in seen):
        if report.restart_s > longest.get(report.version, 0.0):
            longest[report.version] = report.restart_s
    return {version: round(seconds, 1) for version, seconds in longest.items()}


def _differs(table: RoutingTable, latest: RoutingTable) -> bool:
    return table.versions != latest.versions or table.routes != latest.routes or table.autos != latest.autos


def _heard(
    catalogue: Catalogue, seen: Sequence[Seen], before: Mapping[WorkerId, WorkerEntry], after: float, view: FleetView
) -> list[WorkerReport]:
    """Reports newer than ``after``, and older ones of workers that may still serve. If this controller did not listen
    then, those are all workers of the last table. Otherwise they are workers with a process on this host, until as
    many as are deployed serve without them.
    """
    fresh, silent = list[WorkerReport](), list[WorkerReport]()
    for one in view.offered(seen):
        is_fresh = one.at > after or (view.since > after and one.report.worker in before)
        (fresh if is_fresh else silent).append(one.report)
    if not silent:
        return fresh
    missing = Counter({deployment.version: deployment.replicas for deployment in catalogue.deployments})
    missing.update({version: target.workers - missing[version] for version, target in view.targets.items()})
    missing.subtract(report.version for report in fresh if report.state.serves)
    for route in catalogue.routes:
        if len(route.shares) > 1:
            missing.update({share.version: -missing[share.version] for share in route.shares})
    there = {one.worker for one in view.running if not one.draining}
    for report in silent:
        if report.state.serves and report.worker in there and missing[report.version] > 0:
            fresh.append(report)
            missing[report.version] -= 1
    return fresh


def _by_version(reports: Iterable[WorkerReport]) -> Mapping[VersionId, list[WorkerReport]]:
    found: dict[VersionId, list[WorkerReport]] = defaultdict(list)
    for report in reports:
        if report.state not in _GONE:
            found[report.version].append(report)
    return found


def _workers(
    reports: list[WorkerReport], before: Mapping[WorkerId, WorkerEntry], *, with_load: bool
) -> tuple[WorkerEntry, ...]:
    reports.sort(key=_WORKER)
    found = []
    for report in reports:
        entry = before.get(report.worker)
        is_known = entry is not None and _is_steady(entry, report)
        if entry is None or not is_known or (with_load and _is_other_load(entry, report)):
            entry = WorkerEntry(
                id=report.worker,
                url=report.url,
                state=report.state,
                zone=report.zone,
                load=report.load,
                ready_in_s=report.ready_in_s,
                key_mark=report.key_mark,
                adapters=_held(report),
                pools=report.pools,
            )
        found.append(entry)
    return tuple(found)


def _is_steady(entry: WorkerEntry, report: WorkerReport) -> bool:
    is_there = entry.state is report.state and entry.url == report.url and entry.zone == report.zone
    is_same = entry.key_mark == report.key_mark and entry.pools == report.pools
    return is_there and is_same and entry.adapters == _held(report)


def _held(report: WorkerReport) -> tuple[VersionId, ...]:
    """Sorted, since a worker may report adapters in order of last use."""
    return tuple(sorted(report.adapters)) if report.adapters else ()


def _is_other_load(entry: WorkerEntry, report: WorkerReport) -> bool:
    return entry.load != report.load or entry.ready_in_s != report.ready_in_s


def _packs(version: ModelVersion, of_base: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*of_base, *version.manifest.safety)))


def _entry(version: ModelVersion, workers: tuple[WorkerEntry, ...]) -> VersionEntry:
    manifest = version.manifest
    return VersionEntry(
        id=version.id,
        digest=version.digest,
        task=manifest.task,
        tier=manifest.tier,
        price=manifest.price,
        max_model_len=manifest.engine.max_model_len,
        block_size=manifest.engine.block_size,
        tokenizer_sha256=next((file.sha256 for file in manifest.files if file.path == _TOKENIZER), ""),
        special_tokens=manifest.special_tokens,
        chat_template=manifest.chat_template if manifest.adapter is None else "",
        sampling=manifest.sampling,
        max_num_seqs=manifest.engine.max_num_seqs,
        workers=workers,
        handler=manifest.handler,
        tool_parser=manifest.engine.tool_parser,
        renders=abilities.of_manifest(manifest),
    )
