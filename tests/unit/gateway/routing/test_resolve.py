from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import TableRefused, UnknownModel, UnsupportedByModel
from penstock.domain.fleet.table import Override, Route, RoutingTable, Share, validate
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.serving.request import Api
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver, choose, reachable, sticky_key
from tests.support.samples.calls import VERSION, principal, request

OTHER = replace(VERSION, id=VersionId("toy@ba9876543210"), digest="ba9876543210" + "0" * 52)
ONE = Route(alias=Alias("toy"), shares=(Share(version=VERSION.id, weight=10_000),))


names = st.text("ab-_", min_size=1, max_size=2).map(lambda rest: f"t{rest}")
sessions = st.text("ab ~", max_size=2)
texts = st.text("ab\x1e\x1f", max_size=4)
"""What a user may be: callers put anything into it, separators too."""


def table(number: int = 1, *, route: Route = ONE) -> RoutingTable:
    """Return a table with two versions of one model."""
    return RoutingTable(number=number, made_at=0.0, routes=(route,), versions=(VERSION, OTHER))


def split(weight: int) -> Route:
    """Return an alias of which the second version has this share."""
    shares = (Share(version=VERSION.id, weight=10_000 - weight), Share(version=OTHER.id, weight=weight))
    return Route(alias=Alias("toy"), shares=shares)


@pytest.fixture
def resolver() -> TableResolver:
    """Return a resolver over the plain table."""
    current = CurrentTable()
    current.swap(table(), 0.0)
    return TableResolver(current)


def test_alias_and_pinned_version(resolver: TableResolver) -> None:
    """An alias leads to its version, a pinned name to itself."""
    assert resolver.resolve(request(model="toy"), principal()) is VERSION
    assert resolver.resolve(request(model=OTHER.id), principal()) is OTHER


def test_unknown_model(resolver: TableResolver) -> None:
    """A name that is nowhere is said to be so; a long one is not repeated in full."""
    with pytest.raises(UnknownModel) as caught:
        resolver.resolve(request(model="x" * 5_000), principal())
    assert len(caught.value.message) < 200
    assert caught.value.param == "model"


@pytest.mark.parametrize("digits", [13, 40, 64])
def test_a_version_is_known_by_its_whole_digest(resolver: TableResolver, digits: int) -> None:
    """A version that is named by its digest, as the registry shows it, is the one that its short name is."""
    name = f"toy@{VERSION.digest[:digits]}"
    assert resolver.resolve(request(model=name), principal()) is VERSION
    assert resolver.resolve(request(model=name), principal(models=(Alias(VERSION.id),))) is VERSION


@pytest.mark.parametrize(
    "name", ["toy@" + "f" * 64, "toy@0123", "toy@", f"toy@{VERSION.digest}0", f"toy@{VERSION.digest[:-1]}1"]
)
def test_a_wrong_digest_is_answered_with_the_right_ones(resolver: TableResolver, name: str) -> None:
    """Who names a version that is none is told which ones there are, as far as its key may see them."""
    with pytest.raises(UnknownModel, match=f"versions of toy: {VERSION.id}, {OTHER.id}$"):
        resolver.resolve(request(model=name), principal())
    with pytest.raises(UnknownModel, match=f"versions of toy: {OTHER.id}$"):
        resolver.resolve(request(model=name), principal(models=(Alias(OTHER.id),)))
    with pytest.raises(UnknownModel, match=r"may not see it$"):
        resolver.resolve(request(model=name), principal(models=(Alias("x"),)))


def test_two_versions_of_one_digest_are_none() -> None:
    """A digest that begins two versions of a model names neither."""
    twin = replace(OTHER, digest=VERSION.digest[:20] + "1" * 44)
    current = CurrentTable()
    current.swap(replace(table(), versions=(VERSION, twin)), 0.0)
    with pytest.raises(UnknownModel, match=f"{VERSION.id}, {twin.id}"):
        TableResolver(current).resolve(request(model=f"toy@{VERSION.digest[:20]}"), principal())


def test_limits_are_asked_of_the_same_version() -> None:
    """What is asked before a body is read knows a version by its whole digest too."""
    current = CurrentTable()
    current.swap(table(), 0.0)
    assert reachable(current.view, principal(), f"toy@{VERSION.digest}") == {VERSION.id}


def test_scope_of_a_key(resolver: TableResolver) -> None:
    """A key with a scope reaches what is in it and nothing else, pinned names included."""
    scoped = principal(models=(Alias("toy"),))
    assert resolver.resolve(request(model="toy"), scoped) is VERSION
    with pytest.raises(UnknownModel):
        resolver.resolve(request(model=OTHER.id), scoped)


def test_wrong_task(resolver: TableResolver) -> None:
    """A model answers only the APIs of its task."""
    with pytest.raises(UnsupportedByModel):
        resolver.resolve(request(api=Api.EMBEDDINGS), principal())


def test_empty_table_knows_nothing() -> None:
    """Before the first table every model is unknown."""
    with pytest.raises(UnknownModel):
        TableResolver(CurrentTable()).resolve(request(), principal())


@given(st.integers(0, 10_000))
def test_shares_are_kept(weight: int) -> None:
    """Over many callers each version gets its share."""
    keys = [f"tenant-{n}" for n in range(2_000)]
    got = Counter(choose(split(weight), key) for key in keys)
    assert abs(got[OTHER.id] / len(keys) - weight / 10_000) < 0.06


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_weights_move_only_what_changed(before: int, after: int) -> None:
    """When a share grows, callers only move to it; nobody moves the other way."""
    low, high = sorted((before, after))
    for n in range(300):
        if choose(split(low), f"t{n}") == OTHER.id:
            assert choose(split(high), f"t{n}") == OTHER.id


@given(
    st.lists(st.integers(0, 100), min_size=3, max_size=3).filter(any),
    st.integers(0, 2),
    st.integers(0, 100),
)
def test_of_several_versions_only_the_changed_one_gains_or_loses(parts: list[int], which: int, part: int) -> None:
    """Among three, who had none of the changed version before and after has the one that it had."""
    changed = [part if number == which else before for number, before in enumerate(parts)]
    before, after = ([Share(version=VersionId(f"v{n}"), weight=w) for n, w in enumerate(ws)] for ws in (parts, changed))
    for number in range(100):
        was, now = (choose(Route(alias=Alias("a"), shares=tuple(one)), f"t{number}") for one in (before, after))
        if any(changed):
            assert was == now or f"v{which}" in (was, now)
            assert now == f"v{which}" or part <= parts[which] or was == now


@given(st.integers(0, 10_000), st.sets(st.sampled_from([f"t{n}" for n in range(40)])), st.booleans())
def test_an_override_moves_its_tenant_alone(weight: int, named: set[str], goes_first: bool) -> None:
    """Whoever has none stays where it was, and whoever has one is there, its users and sessions too."""
    own = OTHER.id if goes_first else VERSION.id
    overrides = tuple(Override(tenant=TenantId(tenant), version=own) for tenant in sorted(named))

    def versions(route: Route) -> dict[str, list[str]]:
        current = CurrentTable()
        current.swap(table(route=route), 0.0)
        ask = TableResolver(current).resolve
        kinds: tuple[dict[str, Any], ...] = ({}, {"body": {"user": "u"}}, {"session": "s"})
        return {
            f"t{n}": [ask(request(**kind), principal(tenant=TenantId(f"t{n}"))).id for kind in kinds] for n in range(40)
        }

    before, after = versions(split(weight)), versions(replace(split(weight), overrides=overrides))
    assert after == {tenant: [own] * 3 if tenant in named else was for tenant, was in before.items()}


@pytest.mark.parametrize(
    ("version", "tenants", "says"),
    [("no@0123456789ab", ("a",), "gives a no@0123456789ab"), (OTHER.id, ("a", "b", "a"), "two overrides")],
)
def test_a_table_with_senseless_overrides_is_refused(version: str, tenants: tuple[str, ...], says: str) -> None:
    """A version that is none of the alias's, or a tenant twice: the last good table stays in force."""
    overrides = tuple(Override(tenant=TenantId(tenant), version=VersionId(version)) for tenant in tenants)
    with pytest.raises(TableRefused, match=says):
        validate(table(route=replace(split(0), overrides=overrides)))
    foreign = (Override(tenant=TenantId("a"), version=OTHER.id),)
    with pytest.raises(TableRefused, match="none of its versions"):
        validate(table(route=replace(ONE, overrides=foreign)))


def test_sticky_by_user_else_tenant() -> None:
    """A caller sees one version throughout; a tenant's end users are spread."""
    current = CurrentTable()
    current.swap(table(route=split(5_000)), 0.0)
    resolver = TableResolver(current)
    seen = {resolver.resolve(request(model="toy"), principal()).id for _ in range(20)}
    assert len(seen) == 1
    users = {
        resolver.resolve(request(model="toy", body={"user": f"u{n}"}), principal(tenant=TenantId("a"))).id
        for n in range(50)
    }
    assert len(users) == 2


@given(names, names, texts, texts, sessions, sessions)
def test_a_key_is_one_callers(
    tenant: str, other: str, user: str, others_user: str, session: str, others_session: str
) -> None:
    """Sessions, users and tenants never share a key, whatever a user holds: they are told apart before hashing."""
    mine = request(body={"user": user}, session=session), principal(tenant=TenantId(tenant))
    theirs = request(body={"user": others_user}, session=others_session), principal(tenant=TenantId(other))

    def known(tenant: str, user: str, session: str) -> tuple[str, str, str]:
        return (tenant, "session", session) if session else (tenant, "user" if user else "", user)

    is_one = known(tenant, user, session) == known(other, others_user, others_session)
    assert (sticky_key(*mine) == sticky_key(*theirs)) is is_one


def test_a_session_goes_before_a_user_and_a_user_before_a_tenant() -> None:
    """A session's requests stay together whoever sends them; what is known without one is as it ever was."""
    who = principal(tenant=TenantId("a"))
    keys = {sticky_key(request(body={"user": user}, session="s"), who) for user in ("", "u1", "u2")}
    assert keys == {"a\x1es"}
    assert sticky_key(request(body={"user": "u"}), who) == "a\x1fu"
    assert sticky_key(request(body={"user": ["u"]}), who) == sticky_key(request(body={}), who) == "a"


def test_tables_only_go_forward() -> None:
    """An older table is refused, the same one changes nothing, an invalid one leaves the last good one."""
    current = CurrentTable()
    assert current.swap(table(5), 1.0)
    assert not current.swap(table(5), 2.0)
    with pytest.raises(TableRefused, match="older"):
        current.swap(table(4), 3.0)
    with pytest.raises(TableRefused):
        current.swap(RoutingTable(number=6, made_at=0.0, routes=(ONE,)), 4.0)
    assert (current.number, current.view.at) == (5, 1.0)


def test_listeners_see_before_and_after() -> None:
    """Every swap is told with both tables."""
    current = CurrentTable()
    seen: list[tuple[int, int]] = []
    current.on_change(lambda before, after: seen.append((before.table.number, after.table.number)))
    for number in (1, 1, 7):
        current.swap(table(number), 0.0)
    assert seen == [(0, 1), (1, 7)]
