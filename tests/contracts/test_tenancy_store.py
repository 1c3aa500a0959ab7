"""The store of tenants and keys: the memory twin and Postgres keep the same promises."""

from dataclasses import replace

import pytest

from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.control.api.ports import TenancyStore
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.ids import Alias, KeyId, OrgId, TenantId
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import (
    DEFAULT_ORG,
    ApiKey,
    Org,
    OverQuota,
    Plan,
    Priority,
    Role,
    ScopeId,
    ScopeKind,
    Tenant,
)
from tests.support.samples import control_plane as things
from tests.twins.audit import MemoryAudit
from tests.twins.tenancy import MemoryTenancy

PLAN = Plan(
    priority=Priority.INTERACTIVE, weight=3, deadline_s=2.5, paid=True, over_quota=OverQuota.YIELD, reserved=0.25
)
ACME = Tenant(id=TenantId("acme"), name="Acme", plan=PLAN)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def store(request: pytest.FixtureRequest) -> TenancyStore:
    if request.param == "memory":
        return MemoryTenancy(MemoryAudit())
    return PostgresTenancy(request.getfixturevalue("database"))


def key(at: float = 1.0) -> ApiKey:
    _, record = mint(ACME.id, pepper=b"p" * 32, now=at, role=Role.ADMIN, models=(Alias("chat"),), expires_at=90.0)
    return record


async def test_tenants_and_keys_come_back_as_they_went_in(store: TenancyStore) -> None:
    """A stored tenant, plan and key equal what was added."""
    await store.add_tenant(ACME, things.act())
    one = key()
    await store.add_key(one, things.act())
    assert await store.tenants() == (ACME,)
    assert await store.keys() == (one,)
    assert await store.key(one.id) == one
    assert await store.key(KeyId("unknown")) is None


async def test_a_tenant_exists_once(store: TenancyStore) -> None:
    """A second tenant of the same id is a conflict."""
    await store.add_tenant(ACME, things.act())
    with pytest.raises(Conflict, match="this tenant exists already"):
        await store.add_tenant(ACME, things.act())


async def test_a_key_needs_its_tenant(store: TenancyStore) -> None:
    """A key for a tenant that does not exist is a conflict."""
    with pytest.raises(Conflict):
        await store.add_key(key(), things.act())


async def test_a_key_is_revoked_once(store: TenancyStore) -> None:
    """Revoking sets the time of the act; a second time or an unknown key says so."""
    await store.add_tenant(ACME, things.act())
    one = key()
    await store.add_key(one, things.act())
    assert await store.revoke_key(one.id, things.act(at=7.0)) is True
    assert await store.revoke_key(one.id, things.act(at=8.0)) is False
    assert await store.revoke_key(KeyId("unknown"), things.act()) is False
    assert [stored.revoked_at for stored in await store.keys()] == [7.0]


async def test_a_rotated_key_works_until_its_overlap_ends(store: TenancyStore) -> None:
    """Rotation adds the successor and never lengthens the old key's life."""
    await store.add_tenant(ACME, things.act())
    old, new, newest = key(1.0), key(2.0), key(3.0)
    await store.add_key(old, things.act())
    await store.rotate_key(old.id, new, 50.0, things.act())
    await store.rotate_key(new.id, newest, 95.0, things.act())
    assert [(stored.id, stored.expires_at) for stored in await store.keys()] == [
        (old.id, 50.0),
        (new.id, 90.0),
        (newest.id, 90.0),
    ]


async def test_a_key_has_one_successor(store: TenancyStore) -> None:
    """A second rotation of one key is refused, names the successor, and leaves no key."""
    await store.add_tenant(ACME, things.act())
    old, new = key(1.0), key(2.0)
    await store.add_key(old, things.act())
    await store.rotate_key(old.id, new, 50.0, things.act())
    with pytest.raises(Conflict, match=new.id):
        await store.rotate_key(old.id, key(3.0), 50.0, things.act())
    assert [stored.id for stored in await store.keys()] == [old.id, new.id]


async def test_a_revoked_key_can_not_be_rotated(store: TenancyStore) -> None:
    """A revoked key gets no successor."""
    await store.add_tenant(ACME, things.act())
    old = key()
    await store.add_key(old, things.act())
    await store.revoke_key(old.id, things.act())
    with pytest.raises(Conflict):
        await store.rotate_key(old.id, key(2.0), 50.0, things.act())
    assert len(await store.keys()) == 1


async def test_a_tenant_belongs_to_an_organisation(store: TenancyStore) -> None:
    """The default one is always there; others are added once, and a tenant needs its own to exist."""
    group = Org(id=OrgId("group"), name="Group", plan=Plan(spend_per_day=MicroUsd(5)))
    await store.add_org(group, things.act())
    with pytest.raises(Conflict, match="this organisation exists already"):
        await store.add_org(group, things.act())
    assert [org.id for org in await store.orgs()] == [DEFAULT_ORG, "group"]
    member = replace(ACME, org=group.id)
    await store.add_tenant(member, things.act())
    assert await store.tenants() == (member,)
    with pytest.raises(Conflict):
        await store.add_tenant(Tenant(id=TenantId("lost"), name="Lost", org=OrgId("nowhere")), things.act())
    assert (await store.orgs())[1] == group


async def test_a_tenant_moves(store: TenancyStore) -> None:
    """It belongs to the new organisation with plan and keys; an unknown tenant or organisation is refused."""
    await store.add_org(Org(id=OrgId("group"), name="Group"), things.act())
    await store.add_tenant(ACME, things.act())
    moved = replace(ACME, org=OrgId("group"))
    assert await store.move_tenant(ACME.id, OrgId("group"), things.act()) == moved
    assert await store.tenants() == (moved,)
    assert await store.move_tenant(TenantId("nobody"), OrgId("group"), things.act()) is None
    with pytest.raises(Conflict):
        await store.move_tenant(ACME.id, OrgId("nowhere"), things.act())
    assert await store.tenants() == (moved,)


@pytest.mark.parametrize("kind", ScopeKind)
async def test_a_plan_is_changed_in_place(store: TenancyStore, kind: ScopeKind) -> None:
    """A change sees the plan that was, is stored and leaves other plans alone; one that raises changes nothing."""
    one = key()
    await store.add_tenant(ACME, things.act())
    await store.add_key(one, things.act())
    names = {ScopeKind.KEY: one.id, ScopeKind.TENANT: ACME.id, ScopeKind.ORG: DEFAULT_ORG}
    whose = ScopeId(kind=kind, id=names[kind])
    await store.change_plan(whose, lambda plan: replace(plan, max_streams=3), things.act())
    changed = await store.change_plan(whose, lambda plan: replace(plan, spend_per_day=MicroUsd(7)), things.act())
    assert changed is not None

    def refuse(_: Plan) -> Plan:
        raise InvalidField("no")

    with pytest.raises(InvalidField):
        await store.change_plan(whose, refuse, things.act())
    plans = {
        ScopeKind.KEY: (await store.keys())[0].plan,
        ScopeKind.TENANT: (await store.tenants())[0].plan,
        ScopeKind.ORG: (await store.orgs())[0].plan,
    }
    before = {ScopeKind.KEY: Plan(), ScopeKind.TENANT: ACME.plan, ScopeKind.ORG: Plan()}
    assert plans == {**before, kind: changed}
    assert (changed.max_streams, changed.spend_per_day) == (3, 7)


async def test_nobodys_plan_is_not_changed(store: TenancyStore) -> None:
    """An unknown name is told."""
    for kind in ScopeKind:
        assert await store.change_plan(ScopeId(kind=kind, id="nobody"), lambda plan: plan, things.act()) is None
