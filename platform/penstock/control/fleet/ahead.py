"""Selects the versions that nodes fetch before workers of them come. Pure.

Trade-off: nodes are told through serving workers, so that an empty node fetches nothing. In return none needs a
process, key or right of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from penstock.domain.fleet.versions import Deployment, FleetView, Seen
from penstock.domain.ids import VersionId, WorkerId

MOST_WORKERS = 16
"""Workers told of one version: a new pod prefers as many nodes."""


def ahead(
    deployments: Iterable[Deployment], moving: Mapping[VersionId, VersionId], seen: Iterable[Seen], view: FleetView
) -> Mapping[WorkerId, Sequence[VersionId]]:
    """``deployments`` have the numbers of floor and forecast, ``moving`` each incumbent's candidate."""
    reports = [one.report for one in seen if one.report.state.serves]
    there = Counter(one.version for one in reports)
    told = defaultdict[WorkerId, list[VersionId]](list)
    for one in reports:
        if one.version in moving:
            told[one.worker].append(moving[one.version])
    for version in [one.version for one in deployments if one.replicas > there[one.version]]:
        device = view.devices.get(version, "")
        near = [one for one in reports if one.version != version and view.devices.get(one.version, "") == device]
        for one in near[:MOST_WORKERS]:
            if version not in told[one.worker]:
                told[one.worker].append(version)
    return told
