"""The routing table out of the catalogue and the last heartbeats. Pure, and in a fixed order.

Trade-off: a table per heartbeat would be freshest and would flood gateways; one per change of membership would leave
them without load figures for workers that they don't send to. So who serves is published at once, load once
a second.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.domain.fleet import Catalogue, Seen
from penstock.domain.ids import VersionId
from penstock.domain.model import ModelVersion
from penstock.domain.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.worker import Load, WorkerState

LOAD_EVERY_S = 1.0
_TOKENIZER = "tokenizer.json"
_GONE = frozenset({WorkerState.STOPPED, WorkerState.FAILED})


def build(
    catalogue: Catalogue, seen: Sequence[Seen], latest: RoutingTable, now: float, since: float = 0.0, *, lease_s: float
) -> RoutingTable:
    """Return the next table, or ``latest`` itself where there is nothing (or nothing urgent) to tell.

    ``now`` is Unix seconds; a worker silent for ``lease_s`` is left out. Silence before ``since`` is not held against
    those that ``latest`` has: nobody was listening, and they serve on.
    """
    routed = {share.version for route in catalogue.routes for share in route.shares}
    deployed = {deployment.version for deployment in catalogue.deployments if deployment.replicas}
    kept = {worker.id for version in latest.versions for worker in version.workers}
    fresh = [one for one in seen if now - max(one.at, since if one.report.worker in kept else 0.0) < lease_s]
    known_s = {version.id: version.start_s for version in latest.versions}
    versions = tuple(
        replace(_entry(version, fresh), start_s=start_s(version.id, seen) or known_s.get(version.id, 0.0))
        for version in sorted(catalogue.versions, key=lambda version: version.id)
        if version.id in routed or version.id in deployed
    )
    routes = tuple(sorted(catalogue.routes, key=lambda route: route.alias))
    table = RoutingTable(number=latest.number + 1, made_at=now, routes=routes, versions=versions)
    return table if _is_news(table, latest) else latest


def start_s(version: VersionId, seen: Sequence[Seen]) -> float:
    """Return the longest complete start among a version's workers, 0 where none has reported one.

    The longest, because it is promised to callers: several that start beside one another take longer than one.
    """
    starts = (one.report.phases for one in seen if one.report.version == version)
    complete = (phases for phases in starts if phases and phases[-1].phase is WorkerState.WARMING)
    return max((round(sum(phase.seconds for phase in phases), 1) for phases in complete), default=0.0)


def _is_news(table: RoutingTable, latest: RoutingTable) -> bool:
    if (_steady(table.versions), table.routes) != (_steady(latest.versions), latest.routes):
        return True
    is_load_due = not 0 <= table.made_at - latest.made_at < LOAD_EVERY_S
    return is_load_due and table.versions != latest.versions


def _steady(versions: tuple[VersionEntry, ...]) -> tuple[VersionEntry, ...]:
    """Return the versions without what changes with every heartbeat."""
    return tuple(
        replace(version, workers=tuple(replace(worker, load=Load(), ready_in_s=0.0) for worker in version.workers))
        for version in versions
    )


def _entry(version: ModelVersion, fresh: Sequence[Seen]) -> VersionEntry:
    manifest = version.manifest
    workers = (one.report for one in fresh if one.report.version == version.id and one.report.state not in _GONE)
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
        chat_template=manifest.chat_template,
        sampling=manifest.sampling,
        max_num_seqs=manifest.engine.max_num_seqs,
        workers=tuple(
            WorkerEntry(
                id=report.worker,
                url=report.url,
                state=report.state,
                zone=report.zone,
                load=report.load,
                ready_in_s=report.ready_in_s,
            )
            for report in sorted(workers, key=lambda report: report.worker)
        ),
    )
