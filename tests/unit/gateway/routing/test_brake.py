"""The gateway's own brake: whose new requests a fallback takes, and when they go back."""

from dataclasses import replace

import pytest

from penstock.domain.errors import TableRefused, UnknownModel, UnsupportedByModel
from penstock.domain.fleet.table import Override, Route, RoutingTable, Share, VersionEntry, validate
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import NO_VERSION, Alias, TenantId, VersionId, WorkerId
from penstock.domain.models.model import Task
from penstock.domain.serving.request import Api
from penstock.gateway.dispatch.records import ProbeResult
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from tests.support.gateways.breakers import Room, version
from tests.support.samples.calls import VERSION, principal, request

OLD = version({"a": 2})
NEW = replace(version({"b": 1}, VersionId("new@ba9876543210")), digest="ba9876543210" + "0" * 52)
OUR = tuple(f"u{number}" for number in range(40))


def route(weight: int = 5_000, fallback: VersionId = OLD.id) -> Route:
    """Return an alias of which the new version has this share."""
    shares = (Share(version=OLD.id, weight=10_000 - weight), Share(version=NEW.id, weight=weight))
    return Route(alias=Alias("toy"), shares=shares, fallback=fallback)


class House:
    """A resolver before real breakers, and what it noted."""

    def __init__(self, way: Route | None = None, *, old: VersionEntry = OLD, new: VersionEntry = NEW) -> None:
        self.room = Room(old, new)
        self.noted: list[VersionId] = []
        current = CurrentTable()
        current.swap(RoutingTable(number=1, made_at=0.0, routes=(way or route(),), versions=(old, new)), 0.0)
        self.resolver = TableResolver(current, self.room.breakers.is_shut)

    def of(self, user: str, model: str = "toy") -> VersionId:
        asked = request(model=model, body={"user": user})
        return self.resolver.resolve(asked, principal(), self.noted.append).id

    def all(self) -> list[VersionId]:
        return [self.of(user) for user in OUR]


def test_a_dead_versions_new_requests_go_to_the_fallback_and_come_back() -> None:
    """While its breaker is shut the fallback has them all; the platform's own probe gives everybody back."""
    house = House()
    before = house.all()
    assert set(before) == {OLD.id, NEW.id}
    assert house.noted == []

    house.room.lose("n-", 0.0)
    assert house.all() == [OLD.id] * len(OUR)
    assert house.noted == [NEW.id] * before.count(NEW.id)

    assert house.room.probe(1.0, lambda _: ProbeResult.CLOSED) == list(house.room.of("n-"))
    assert set(house.all()) == {OLD.id}
    assert house.room.probe(9.0) == list(house.room.of("n-"))
    assert house.all() == before


def test_a_version_that_nobody_serves_has_a_fallback_too() -> None:
    """A table whose worker starts again would refuse; its alias's fallback takes the requests meanwhile."""
    starting = version({"b": 1}, NEW.id, state=WorkerState.LOADING)
    assert set(House(new=starting).all()) == {OLD.id}
    assert set(House(route(fallback=NO_VERSION), new=starting).all()) == {OLD.id, NEW.id}


def test_the_fallback_falls_nowhere() -> None:
    """Its own requests stay with it, and with both dead everybody hears of the version that is theirs."""
    house = House()
    before = house.all()
    house.room.lose("t-")
    assert house.all() == before
    house.room.lose("n-")
    assert house.all() == before
    assert house.noted == []


def test_what_has_no_fallback_is_refused_as_before() -> None:
    """An alias without one, and a version that is named, change nothing."""
    house = House(route(fallback=NO_VERSION))
    before = house.all()
    house.room.lose("n-")
    assert house.all() == before
    assert House().of("u", NEW.id) == NEW.id


def test_a_fallback_that_does_not_answer_this_api_is_none() -> None:
    """The request is left with the version that answers it."""
    house = House(route(10_000), old=replace(OLD, task=Task.EMBED))
    house.room.lose("n-")
    assert set(house.all()) == {NEW.id}
    with pytest.raises(UnsupportedByModel):
        house.resolver.resolve(request(api=Api.EMBEDDINGS), principal(), house.noted.append)
    assert house.noted == []


def test_who_may_not_use_the_alias_learns_nothing_of_it() -> None:
    """A key without the alias is refused in the same words, and no version is noted for it."""
    house = House(route(10_000))
    house.room.lose("n-")
    with pytest.raises(UnknownModel):
        house.resolver.resolve(request(), principal(models=(Alias("x"),)), house.noted.append)
    assert house.noted == []


def test_a_version_with_a_worker_left_needs_no_fallback() -> None:
    """One dead worker of two shuts no version."""
    house = House(route(0, NEW.id))
    house.room.lose(WorkerId("t-a0"))
    assert set(house.all()) == {OLD.id}


def test_a_tenant_that_goes_first_falls_back_and_one_that_stays_out_does_not_fall() -> None:
    """An override chooses the version; who stands in for that is the route's, as for everybody."""
    first, out = (Override(tenant=TenantId("acme"), version=one) for one in (NEW.id, OLD.id))
    bold, careful = (House(replace(route(), overrides=(one,))) for one in (first, out))
    assert set(bold.all()) == {NEW.id}
    bold.room.lose("n-")
    assert set(bold.all()) == {OLD.id}
    careful.room.lose("t-")
    assert set(careful.all()) == {OLD.id}


@pytest.mark.parametrize("fallback", ["nobody@0123456789ab", VERSION.id])
def test_a_fallback_is_one_of_the_aliass_own_versions(fallback: str) -> None:
    """A table that names an unknown or a foreign one is refused."""
    alone = Route(alias=Alias("toy"), shares=(Share(version=NEW.id, weight=10_000),), fallback=VersionId(fallback))
    with pytest.raises(TableRefused, match="falls back to"):
        validate(RoutingTable(number=1, made_at=0.0, routes=(alone,), versions=(OLD, NEW)))
