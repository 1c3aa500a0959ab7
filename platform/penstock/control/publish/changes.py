"""The changes of a new table that callers notice, as decisions: workers that serve or no longer do, aliases. Pure.

Loads differ in every table and are left out.
"""

from collections.abc import Iterator

from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.table import Route, RoutingTable, WorkerEntry
from penstock.domain.serving.auto import Auto

_SERVES = "requests go to workers that report in time that they are ready"
_ROUTES = "aliases lead where operators set them, or their rollouts do"


def changes(before: RoutingTable, after: RoutingTable) -> list[Decision]:
    return [*_workers(before, after), *_routes(before, after), *_autos(before, after)]


def _workers(before: RoutingTable, after: RoutingTable) -> Iterator[Decision]:
    were, are = _known(before), _known(after)
    for worker in sorted(were.keys() | are.keys()):
        was, now = were.get(worker), are.get(worker)
        if (was is not None and was.state.serves) == (now is not None and now.state.serves):
            continue
        yield Decision(
            what="send" if now is not None and now.state.serves else "withhold",
            target=worker,
            signal="worker_state",
            value=now.state if now is not None else "stopped, or no heartbeat in time",
            objective=_SERVES,
        )


def _routes(before: RoutingTable, after: RoutingTable) -> Iterator[Decision]:
    were, are = ({route.alias: route for route in table.routes} for table in (before, after))
    for alias in sorted(were.keys() | are.keys()):
        if were.get(alias) != are.get(alias):
            yield Decision(
                what="route", target=alias, signal="registry_routes", value=_shares(are.get(alias)), objective=_ROUTES
            )


def _autos(before: RoutingTable, after: RoutingTable) -> Iterator[Decision]:
    were, are = ({auto.alias: auto for auto in table.autos} for table in (before, after))
    for alias in sorted(were.keys() | are.keys()):
        if were.get(alias) != are.get(alias):
            yield Decision(
                what="route", target=alias, signal="registry_autos", value=_rules(are.get(alias)), objective=_ROUTES
            )


def _known(table: RoutingTable) -> dict[str, WorkerEntry]:
    return {worker.id: worker for version in table.versions for worker in version.workers}


def _shares(route: Route | None) -> str:
    if route is None:
        return "nowhere"
    falls = f"; where one is dead, {route.fallback}" if route.fallback else ""
    own = f"; {len(route.overrides)} tenants have their own" if route.overrides else ""
    return ", ".join(f"{share.version} {share.weight / 100:g} %" for share in route.shares) + own + falls


def _rules(auto: Auto | None) -> str:
    return "nowhere" if auto is None else "by rules: " + ", ".join(f"{rule.name} to {rule.to}" for rule in auto.rules)
