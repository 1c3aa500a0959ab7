"""Who belongs where: each worker's version and zone, and who of them serves, by the routing table. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable
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
    zones_of: dict[VersionId, set[str]] = field(default_factory=dict)

    def zone(self, worker: WorkerId) -> str:
        """Return its zone, empty where nobody said one."""
        place = self.of.get(worker)
        return place.zone if place else ""

    def zones(self, worker: WorkerId) -> Collection[str]:
        """Return the zones in which workers of its version serve."""
        place = self.of.get(worker)
        return self.zones_of.get(place.version, ()) if place else ()

    def peers(self, worker: WorkerId) -> list[WorkerId]:
        """Return the other workers of its version that serve."""
        place = self.of.get(worker)
        return [one for one in self.in_version.get(place.version, ()) if one != worker] if place else []


def places(versions: Iterable[VersionEntry]) -> Places:
    """Return the membership that these versions tell."""
    of: dict[WorkerId, Place] = {}
    in_version: dict[VersionId, list[WorkerId]] = {}
    in_zone: dict[str, list[WorkerId]] = defaultdict(list)
    zones_of: dict[VersionId, set[str]] = {}
    for version in versions:
        there = {zone: Place(version.id, zone) for zone in {worker.zone for worker in version.workers}}
        of.update((worker.id, there[worker.zone]) for worker in version.workers)
        serving = [worker for worker in version.workers if worker.state.serves]
        for worker in serving:
            in_zone[worker.zone].append(worker.id)
        if serving:
            in_version[version.id] = [worker.id for worker in serving]
            zones_of[version.id] = {worker.zone for worker in serving}
    ready = frozenset(worker for workers in in_version.values() for worker in workers)
    return Places(of, ready, in_version, dict(in_zone), zones_of)
