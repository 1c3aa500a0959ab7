"""The serving workers of a version, indexed once per table, since a pick must not iterate over all of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.ids import WorkerId
from penstock.gateway.routing import selection
from penstock.gateway.routing.residency import Homes


@dataclass(frozen=True, slots=True)
class Roster:
    serving: tuple[WorkerEntry, ...] = ()
    by_id: dict[WorkerId, WorkerEntry] = field(default_factory=dict)
    homes: Homes = field(default_factory=Homes)

    def has_met_all(self, tried: Collection[WorkerId]) -> bool:
        return len(tried) >= len(self.serving) and all(worker in tried for worker in self.by_id)


def roster(version: VersionEntry, before: Roster | None = None) -> Roster:
    """Return the index of a version; ``before`` if the same workers serve."""
    serving = tuple(selection.ready(version.workers))
    by_id = {worker.id: worker for worker in serving}
    is_same = before is not None and before.homes.workers == tuple(by_id)
    homes = before.homes if before is not None and is_same else Homes(by_id)
    return Roster(serving, by_id, homes)


def rosters(table: RoutingTable, before: Mapping[str, Roster]) -> dict[str, Roster]:
    """Return the index of each version in a table; an adapter has the same object as its base."""
    own = {one.id: roster(one, before.get(one.id)) for one in table.versions if not one.base}
    return {one.id: own[one.base or one.id] for one in table.versions}


def staffed(table: RoutingTable) -> RoutingTable:
    """Return the table with each adapter's workers and chat template taken from its base."""
    own = {version.id: version for version in table.versions}
    if len(own) == sum([not version.base for version in table.versions]):
        return table
    return replace(table, versions=tuple([_lent(one, own[one.base]) if one.base else one for one in table.versions]))


def _lent(adapter: VersionEntry, base: VersionEntry) -> VersionEntry:
    return replace(adapter, workers=base.workers, chat_template=base.chat_template)
