"""Who belongs where: each worker's version and zone, and who of them serves, by the routing table. Pure.

Trade-off: every table asks for each worker's place; who its peers are is asked after a failure only, and found then.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import NamedTuple

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.table import VersionEntry


class Place(NamedTuple):
    """Where a worker belongs."""

    version: VersionId
    zone: str


class Places:
    """One table's membership."""

    def __init__(self, versions: Iterable[VersionEntry] = ()) -> None:
        """Take the table's versions."""
        self._versions = tuple(versions)
        self.of: dict[WorkerId, Place] = {}
        for version in self._versions:
            there = {zone: Place(version.id, zone) for zone in {worker.zone for worker in version.workers}}
            self.of |= {worker.id: there[worker.zone] for worker in version.workers}

    @cached_property
    def ready(self) -> frozenset[WorkerId]:
        """Those that new work may be sent to."""
        return frozenset(worker for workers in self.in_version.values() for worker in workers)

    @cached_property
    def in_version(self) -> dict[VersionId, list[WorkerId]]:
        """Who serves, by version; a version without any is left out."""
        serving = {one.id: [worker.id for worker in one.workers if worker.state.serves] for one in self._versions}
        return {version: workers for version, workers in serving.items() if workers}

    @cached_property
    def in_zone(self) -> dict[str, list[WorkerId]]:
        """Who serves, by zone."""
        found: dict[str, list[WorkerId]] = defaultdict(list)
        for workers in self.in_version.values():
            for worker in workers:
                found[self.of[worker].zone].append(worker)
        return dict(found)

    @cached_property
    def _zones(self) -> dict[VersionId, frozenset[str]]:
        return {
            version: frozenset(self.of[worker].zone for worker in workers)
            for version, workers in self.in_version.items()
        }

    def zone(self, worker: WorkerId) -> str:
        """Return its zone, empty where nobody said one."""
        place = self.of.get(worker)
        return place.zone if place else ""

    def zones(self, worker: WorkerId) -> Collection[str]:
        """Return the zones in which workers of its version serve."""
        place = self.of.get(worker)
        return self._zones.get(place.version, ()) if place else ()

    def peers(self, worker: WorkerId) -> list[WorkerId]:
        """Return the other workers of its version that serve."""
        place = self.of.get(worker)
        return [one for one in self.in_version.get(place.version, ()) if one != worker] if place else []
