"""Who belongs where: each worker's version and zone, and who of them serves, by the routing table. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.table import VersionEntry


class Place(NamedTuple):
    """Where a worker belongs."""

    version: VersionId
    zone: str


@dataclass(frozen=True, slots=True)
class Places:
    """One table's membership; ``ready`` are those that new work may be sent to."""

    of: dict[WorkerId, Place] = field(default_factory=dict)
    ready: frozenset[WorkerId] = frozenset()
    in_version: dict[VersionId, list[WorkerId]] = field(default_factory=dict)
    in_zone: dict[str, list[WorkerId]] = field(default_factory=dict)

    def zone(self, worker: WorkerId) -> str:
        """Return its zone, empty where nobody said one."""
        place = self.of.get(worker)
        return place.zone if place else ""

    def peers(self, worker: WorkerId) -> list[WorkerId]:
        """Return the other workers of its version that serve."""
        place = self.of.get(worker)
        return [one for one in self.in_version.get(place.version, ()) if one != worker] if place else []


def places(versions: Iterable[VersionEntry]) -> Places:
    """Return the membership that these versions tell."""
    of: dict[WorkerId, Place] = {}
    in_version: dict[VersionId, list[WorkerId]] = defaultdict(list)
    in_zone: dict[str, list[WorkerId]] = defaultdict(list)
    for version in versions:
        for worker in version.workers:
            of[worker.id] = Place(version.id, worker.zone)
            if worker.state.serves:
                in_version[version.id].append(worker.id)
                in_zone[worker.zone].append(worker.id)
    ready = frozenset(worker for workers in in_version.values() for worker in workers)
    return Places(of, ready, dict(in_version), dict(in_zone))
