"""What is listed may be called: every list of models, for every scope of a key, beside what a request would get."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest

from penstock.domain.errors import UnknownModel
from penstock.domain.fleet.table import Route, RoutingTable, Share
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.app.routes import visible
from penstock.gateway.oip import catalogue
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver, reachable
from tests.support.samples.calls import VERSION, principal, request

OTHER = replace(VERSION, id=VersionId("toy@ba9876543210"), digest="ba9876543210" + "0" * 52)
OWN = replace(
    VERSION, id=VersionId("own@ccc876543210"), digest="ccc876543210" + "0" * 52, tenants=(TenantId("another"),)
)


def route(alias: str, *versions: VersionId) -> Route:
    return Route(
        alias=Alias(alias), shares=tuple(Share(version=one, weight=10_000 // len(versions)) for one in versions)
    )


TABLE = RoutingTable(
    number=1,
    made_at=0.0,
    versions=(VERSION, OTHER, OWN),
    routes=(route("both", VERSION.id, OTHER.id), route("one", OTHER.id), route("half", OTHER.id, OWN.id)),
    autos=(Auto(alias=Alias("auto"), rules=(Rule(name="a", to=Alias("one")), Rule(name="b", to=Alias(VERSION.id)))),),
)
NAMES = ("both", "one", "half", "auto", VERSION.id, OTHER.id, OWN.id)
SCOPES = [(), *((name,) for name in NAMES), *combinations(NAMES, 2)]


def callable_names(who: Principal) -> Iterator[str]:
    """Yield the names under which a request of this caller gets an answer."""
    current = CurrentTable()
    current.swap(TABLE, 0.0)
    resolver = TableResolver(current)
    for name in NAMES:
        if name == "auto":
            if reachable(current.view, who, name):
                yield name
            continue
        try:
            resolver.resolve(request(model=name), who)
        except UnknownModel:
            continue
        yield name


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: "+".join(scope) or "all")
def test_a_list_names_what_may_be_called(scope: tuple[str, ...]) -> None:
    """`/v1/models` has exactly the names that a request may give; each line of the index is answered."""
    who = principal(models=tuple(Alias(name) for name in scope))
    callable_now = set(callable_names(who))
    assert set(visible(TABLE, who)) == callable_now
    lines = catalogue.index(TABLE, who)
    for line in lines:
        found = catalogue.find(TABLE, who, line.name, line.version)
        assert not line.version or catalogue.digest_of(found.version.id) == line.version
        assert found.name in callable_now
    assert {line.name for line in lines} >= callable_now & {"both", "one", "half"}
