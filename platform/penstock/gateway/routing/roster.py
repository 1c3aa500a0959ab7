"""The workers of a version that serve, indexed once per table: a pick looks at a few of them and must not walk all."""

from collections.abc import Collection
from dataclasses import dataclass, field

from penstock.domain.ids import WorkerId
from penstock.domain.table import VersionEntry, WorkerEntry
from penstock.gateway.routing import filters


@dataclass(frozen=True, slots=True)
class Roster:
    """``serving`` in the table's order, and the same by name."""

    serving: tuple[WorkerEntry, ...] = ()
    by_id: dict[WorkerId, WorkerEntry] = field(default_factory=dict)

    def has_met_all(self, tried: Collection[WorkerId]) -> bool:
        """Tell whether nobody is left for a request that has met these."""
        return len(tried) >= len(self.serving) and all(worker in tried for worker in self.by_id)


def roster(version: VersionEntry) -> Roster:
    """Index a version."""
    serving = tuple(filters.ready(version.workers))
    return Roster(serving, {worker.id: worker for worker in serving})
