"""The present routing table, in memory, indexed; each new one replaces it as a whole.

A reader sees the old table or the new one, never a mixture: one reference holds table and indexes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from penstock.domain.errors import TableRefused
from penstock.domain.fleet.table import EMPTY, Route, RoutingTable, VersionEntry, validate
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.serving.auto import Auto
from penstock.gateway.routing.roster import Roster, rosters, staffed


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A routing table with its indexes; ``at`` is the swap's monotonic second, ``overrides`` has no empty ones.

    An adapter has the workers of its base.
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
        """Make ``table`` the present one at monotonic second ``now``; False if it already was.

        Raises ``TableRefused`` if it is invalid or older than the present table, which then stays.
        """
        before = self.number
        for _ in self.steps(table, now):
            pass
        return self.number != before

    def steps(self, table: RoutingTable, now: float) -> Iterator[None]:
        """Do ``swap`` in steps, each short even with ten thousand workers (C12).

        Listeners are called after the step that swaps the table, each in a step of its own.
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
