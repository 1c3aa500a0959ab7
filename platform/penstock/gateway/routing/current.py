"""The present routing table, in memory, indexed; each new one replaces it as a whole.

A reader sees the old table or the new one, never a mixture: one reference holds table and indexes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.domain.errors import TableRefused
from penstock.domain.fleet.table import EMPTY, Route, RoutingTable, VersionEntry, WorkerEntry, validate
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.serving.auto import Auto
from penstock.gateway.routing import selection
from penstock.gateway.routing.residency import Homes


@dataclass(frozen=True, slots=True)
class Roster:
    """Indexed once per table: a pick must not iterate over all workers."""

    serving: tuple[WorkerEntry, ...] = ()
    by_id: dict[WorkerId, WorkerEntry] = field(default_factory=dict)
    homes: Homes = field(default_factory=Homes)

    def has_met_all(self, tried: Collection[WorkerId]) -> bool:
        return len(tried) >= len(self.serving) and all(worker in tried for worker in self.by_id)


def roster(version: VersionEntry, before: Roster | None = None) -> Roster:
    serving = tuple(selection.ready(version.workers))
    by_id = {worker.id: worker for worker in serving}
    is_same = before is not None and before.homes.workers == tuple(by_id)
    homes = before.homes if before is not None and is_same else Homes(by_id)
    return Roster(serving, by_id, homes)


def rosters(table: RoutingTable, before: Mapping[str, Roster]) -> dict[str, Roster]:
    own = {one.id: roster(one, before.get(one.id)) for one in table.versions if not one.base}
    return {one.id: own[one.base or one.id] for one in table.versions}


def staffed(table: RoutingTable) -> RoutingTable:
    own = {version.id: version for version in table.versions}
    if len(own) == sum([not version.base for version in table.versions]):
        return table
    return replace(table, versions=tuple([_lent(one, own[one.base]) if one.base else one for one in table.versions]))


def _lent(adapter: VersionEntry, base: VersionEntry) -> VersionEntry:
    return replace(adapter, workers=base.workers, chat_template=base.chat_template)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """``at`` is the swap's monotonic second; ``overrides`` has no empty ones. An adapter has the workers of its
    base.
    """

    table: RoutingTable
    routes: dict[str, Route]
    overrides: dict[str, dict[TenantId, VersionId]]
    versions: dict[str, VersionEntry]
    autos: dict[str, Auto]
    rosters: Mapping[str, Roster]
    has_owners: bool
    """Whether any version is restricted to some tenants."""
    owned: frozenset[str]
    """Aliases that lead to a restricted version."""
    workers: frozenset[WorkerId]
    at: float


def _view(table: RoutingTable, rosters: Mapping[str, Roster], at: float) -> View:
    own = {version.id for version in table.versions if version.tenants is not None}
    return View(
        table=table,
        routes={route.alias: route for route in table.routes},
        overrides={
            route.alias: {override.tenant: override.version for override in route.overrides}
            for route in table.routes
            if route.overrides
        },
        versions={version.id: version for version in table.versions},
        autos={auto.alias: auto for auto in table.autos},
        rosters=rosters,
        has_owners=bool(own),
        owned=frozenset(route.alias for route in table.routes if own and not own.isdisjoint(_led_to(route))),
        workers=frozenset([worker.id for one in table.versions if not one.base for worker in one.workers]),
        at=at,
    )


def _led_to(route: Route) -> Iterator[VersionId]:
    return (share.version for share in route.shares)


class CurrentTable:
    def __init__(self) -> None:
        self.view = _view(EMPTY, {}, 0.0)
        self._on_change: list[Callable[[View, View], None]] = []

    @property
    def number(self) -> int:
        return self.view.table.number

    def on_change(self, listener: Callable[[View, View], None]) -> None:
        self._on_change.append(listener)

    def swap(self, table: RoutingTable, now: float) -> bool:
        """Return False if ``table`` already was the present one.

        Raises ``TableRefused`` if it is invalid or older than the present table, which then stays.
        """
        before = self.number
        for _ in self.steps(table, now):
            pass
        return self.number != before

    def steps(self, table: RoutingTable, now: float) -> Iterator[None]:
        """``swap`` in steps, each short even with ten thousand workers (C12). Listeners are called after the swap, each
        in a step of its own.
        """
        if table.number < self.number:
            raise TableRefused(f"table {table.number} is older than {self.number}, which is in force")
        if table.number == self.number:
            return
        validate(table)
        yield
        indexed: dict[str, Roster] = rosters(table, self.view.rosters)
        yield
        before, after = self.view, _view(staffed(table), indexed, now)
        yield
        self.view = after
        for listener in self._on_change:
            listener(before, after)
            yield

    def version(self, version: VersionId) -> VersionEntry | None:
        return self.view.versions.get(version)

    def is_outside(self, versions: Iterable[VersionId], pools: frozenset[str]) -> bool:
        """Tell whether each of these versions has workers, and none in these pools."""
        known = [self.view.versions.get(version) for version in versions]
        return bool(pools and known) and all(one is not None and one.is_outside(pools) for one in known)

    def serving(self, version: VersionId) -> int:
        roster = self.view.rosters.get(version)
        return len(roster.serving) if roster is not None else 0
