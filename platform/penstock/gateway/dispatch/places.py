"""Membership by the routing table: each worker's version, zone and address, and the workers of each. Pure.

Trade-off: each new table costs an iteration over all workers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import Task


class Place(NamedTuple):
    version: VersionId
    zone: str
    task: Task


class Places:
    """An adapter's workers count as its base version's."""

    def __init__(self, versions: Iterable[VersionEntry] = ()) -> None:
        versions = tuple(versions)
        self._versions = tuple([version for version in versions if not version.base])
        self.of: dict[WorkerId, Place] = {}
        self.known = frozenset([version.id for version in versions])
        for version in self._versions:
            there = {
                zone: Place(version.id, zone, version.task) for zone in {worker.zone for worker in version.workers}
            }
            self.of |= {worker.id: there[worker.zone] for worker in version.workers}

    @cached_property
    def ready(self) -> frozenset[WorkerId]:
        return frozenset(worker for workers in self.in_version.values() for worker in workers)

    @cached_property
    def in_version(self) -> dict[VersionId, list[WorkerId]]:
        serving = {one.id: [worker.id for worker in one.workers if worker.state.serves] for one in self._versions}
        return {version: workers for version, workers in serving.items() if workers}

    @cached_property
    def in_zone(self) -> dict[str, list[WorkerId]]:
        found: dict[str, list[WorkerId]] = defaultdict(list)
        for workers in self.in_version.values():
            for worker in workers:
                found[self.of[worker].zone].append(worker)
        return dict(found)

    @cached_property
    def sizes(self) -> dict[str, Counter[VersionId]]:
        found: dict[str, Counter[VersionId]] = defaultdict(Counter)
        for version, workers in self.in_version.items():
            for worker in workers:
                found[self.of[worker].zone][version] += 1
        return dict(found)

    @cached_property
    def urls(self) -> dict[WorkerId, str]:
        return {worker.id: worker.url for version in self._versions for worker in version.workers}
