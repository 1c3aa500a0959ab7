"""The registry's store: the memory twin and Postgres keep the same promises."""

from dataclasses import replace

import pytest

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.control.api.ports import AuditLog
from penstock.control.registry.ports import RegistryStore
from penstock.domain.errors import Conflict
from penstock.domain.fleet.versions import Deployment
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.tenancy.owners import Owned
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things
from tests.support.samples.curves import curve
from tests.twins.audit import MemoryAudit
from tests.twins.registry import MemoryRegistry

Stores = tuple[RegistryStore, AuditLog]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def stores(request: pytest.FixtureRequest) -> Stores:
    """Return the store and the audit log it writes to."""
    if request.param == "memory":
        audit = MemoryAudit()
        return MemoryRegistry(audit), audit
    database = request.getfixturevalue("database")
    return PostgresRegistry(database), PostgresAudit(database)


async def test_a_version_comes_back_as_it_went_in(stores: Stores) -> None:
    """A stored version equals the one that was added, and the act is in the audit log."""
    store, audit = stores
    one = things.version()
    assert await store.add_version(one, "sig", things.act("model.register")) == one
    assert await store.versions() == (one,)
    assert [act.what for act in await audit.newest(5)] == ["model.register"]


async def test_an_adapter_comes_back_with_its_base(stores: Stores) -> None:
    """Its manifest has its base and its rank; in the catalogue it is among the others."""
    store, _ = stores
    for one in (adapter_versions.BASE, adapter_versions.version()):
        await store.add_version(one, "sig", things.act())
    assert (await store.catalogue()).versions[1].manifest.adapter == adapter_versions.version().manifest.adapter
    assert await store.versions() == (adapter_versions.BASE, adapter_versions.version())


async def test_the_same_digest_again_is_the_same_version(stores: Stores) -> None:
    """A second push of the same bytes returns the first one's version and notes nothing."""
    store, audit = stores
    first = await store.add_version(things.version(at=1.0), "sig", things.act())
    assert await store.add_version(things.version(at=2.0), "sig", things.act()) == first
    assert await store.versions() == (first,)
    assert len(await audit.newest(5)) == 1


async def test_versions_come_oldest_first(stores: Stores) -> None:
    """Versions are listed in the order in which they came."""
    store, _ = stores
    new, old = things.version(seed="c", at=2.0), things.version(seed="d", at=1.0)
    await store.add_version(new, "sig", things.act())
    await store.add_version(old, "sig", things.act())
    assert await store.versions() == (old, new)


async def test_the_newest_route_of_an_alias_counts(stores: Stores) -> None:
    """Putting an alias again replaces its route and keeps the former one in its history."""
    store, _ = stores
    a, b = things.route("chat", VersionId("a@1")), things.route("chat", VersionId("b@1"))
    await store.put_routes(((a.alias, a),), things.act(at=1.0))
    await store.put_routes(((b.alias, b),), things.act(at=2.0))
    assert await store.routes() == (b,)
    assert [(past.route, past.at) for past in await store.route_history(a.alias, 9)] == [(b, 2.0), (a, 1.0)]


async def test_an_alias_can_be_taken_away(stores: Stores) -> None:
    """An alias without a route is gone from the routes and from the catalogue, not from its history."""
    store, _ = stores
    a = things.route("chat", VersionId("a@1"))
    await store.put_routes(((a.alias, a),), things.act())
    await store.put_routes(((a.alias, None),), things.act())
    assert await store.routes() == ()
    assert (await store.catalogue()).routes == ()
    assert [past.route for past in await store.route_history(Alias("chat"), 1)] == [None]


async def test_the_catalogue_holds_everything(stores: Stores) -> None:
    """One read gives versions, routes and deployments, and sees what was added after the read before."""
    store, _ = stores
    first, second = things.version(at=1.0), things.version(seed="c", at=2.0)
    await store.add_version(first, "sig", things.act())
    assert (await store.catalogue()).versions == (first,)
    await store.add_version(second, "sig", things.act())
    route = things.route("chat", first.id, second.id)
    await store.put_routes(((route.alias, route),), things.act())
    deployment = Deployment(version=first.id, replicas=2, renew_before=5.5, renew=(WorkerId("w"),), pinned=True)
    await store.put_deployment(deployment, things.act())
    catalogue = await store.catalogue()
    assert catalogue.versions == (first, second)
    assert catalogue.routes == (route,)
    assert catalogue.deployments == await store.deployments() == (deployment,)


async def test_rules_come_back_and_can_be_taken_away(stores: Stores) -> None:
    """The newest rules of an auto alias count, are in the catalogue, and have a history; gone is gone."""
    store, audit = stores
    old, new = (Auto(alias=Alias("auto"), rules=(Rule(name=name, to=Alias("chat")),)) for name in ("old", "new"))
    await store.put_autos(((old.alias, old),), things.act(at=1.0))
    await store.put_autos(((new.alias, new),), things.act(at=2.0))
    assert await store.autos() == (await store.catalogue()).autos == (new,)
    await store.put_autos(((new.alias, None),), things.act("auto.remove", at=3.0))
    assert await store.autos() == (await store.catalogue()).autos == ()
    assert [past.auto for past in await store.auto_history(new.alias, 9)] == [None, new, old]
    assert (await audit.newest(1))[0].what == "auto.remove"


async def test_a_deployment_needs_its_version(stores: Stores) -> None:
    """A deployment of an unregistered version is refused and leaves no trace."""
    store, audit = stores
    with pytest.raises(Conflict):
        await store.put_deployment(Deployment(version=VersionId("no@1"), replicas=1), things.act())
    assert await store.deployments() == ()
    assert await audit.newest(5) == ()


async def test_whose_a_version_is_comes_back_and_can_be_changed(stores: Stores) -> None:
    """A version is its tenants' from its first moment, the newest list counts, and None opens it to all again."""
    store, audit = stores
    one, free = things.version(at=1.0), things.version(seed="c", at=2.0)
    await store.add_version(one, "sig", things.act(), (TenantId("acme"),))
    await store.add_version(free, "sig", things.act())
    await store.add_version(one, "sig", things.act(), (TenantId("other"),))
    mine = (Owned(version=one.id, tenants=(TenantId("acme"),)),)
    assert await store.owned() == (await store.catalogue()).owned == mine
    both = (TenantId("acme"), TenantId("beta"))
    await store.put_owners(one.id, both, things.act("model.tenants"))
    assert await store.owned() == (await store.catalogue()).owned == (Owned(version=one.id, tenants=both),)
    await store.put_owners(one.id, None, things.act())
    assert await store.owned() == (await store.catalogue()).owned == ()
    assert "model.tenants" in [act.what for act in await audit.newest(5)]
    with pytest.raises(Conflict):
        await store.put_owners(VersionId("no@1"), None, things.act())


async def test_a_version_has_one_curve_of_each_hardware(stores: Stores) -> None:
    """A newer measurement replaces the older one of the same hardware; another version has none."""
    store, audit = stores
    one, other = things.version(), things.version(name="other")
    for version in (one, other):
        await store.add_version(version, "sig", things.act())
    first, second, newer = curve("cpu x1"), curve("H100 x1"), replace(curve("cpu x1"), error_median=0.01)
    for measured in (first, second, newer):
        await store.put_curve(one.id, measured, things.act("model.curve"))
    assert await store.curves(one.id) == (second, newer)
    assert await store.curves(other.id) == ()
    assert [act.what for act in await audit.newest(3)] == ["model.curve"] * 3
    with pytest.raises(Conflict):
        await store.put_curve(VersionId("gone@000000000000"), first, things.act())
