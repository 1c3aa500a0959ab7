import time
from dataclasses import replace

import msgspec
import pytest

from penstock.domain.errors import Forbidden, Unauthenticated
from penstock.domain.ids import Alias, OrgId, TenantId
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import DEFAULT_ORG, KeyRing, Org, Plan, Role, Scope, Tenant
from penstock.gateway.identity.keyring import Keyring
from tests.support.clock import ManualClock

PEPPER = derive(b"k" * 32, Purpose.PEPPER)
ACME = Tenant(id=TenantId("acme"), name="Acme", plan=Plan(weight=3))
SECRET, KEY = mint(ACME.id, pepper=PEPPER, now=0.0, models=(Alias("smollm2"),))


def ring(clock: ManualClock, snapshot: KeyRing, pepper: bytes = PEPPER) -> Keyring:
    made = Keyring(peppers=(pepper,), salt_key=b"s", now=clock.now)
    made.replace(snapshot)
    return made


def test_a_key_yields_its_tenant_plan_scope_and_salt(clock: ManualClock) -> None:
    """Everything the platform knows of a caller comes from the key's record."""
    who = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,))).authenticate(SECRET)
    assert (who.tenant, who.key, who.role, who.plan, who.models) == (
        "acme",
        KEY.id,
        Role.INFER,
        ACME.plan,
        ("smollm2",),
    )
    assert len(who.cache_salt) == 32


def test_keys_of_both_peppers_work_while_one_takes_the_other_s_place(clock: ManualClock) -> None:
    """An exchange of the pepper shuts nobody out before its end; the tenant's salt is another from its beginning."""
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,)))
    salt = keys.authenticate(SECRET).cache_salt
    keys.exchange(peppers=(b"new", PEPPER), salt_key=b"t")
    assert keys.authenticate(SECRET).cache_salt != salt
    keys.exchange(peppers=(b"new",), salt_key=b"t")
    with pytest.raises(Unauthenticated):
        keys.authenticate(SECRET)


def test_nothing_but_the_whole_secret_works(clock: ManualClock) -> None:
    """A known id with any other character changed is a stranger."""
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,)))
    for i in range(len(SECRET)):
        with pytest.raises(Unauthenticated):
            keys.authenticate(SECRET[:i] + ("x" if SECRET[i] != "x" else "y") + SECRET[i + 1 :])
    for text in ("", "psk_", SECRET[:-1], SECRET + "x", " " + SECRET, "é" * len(SECRET)):
        with pytest.raises(Unauthenticated):
            keys.authenticate(text)


def test_refusals_do_not_tell_why(clock: ManualClock) -> None:
    """A guesser learns nothing from the message about a key that exists."""
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,)))
    unknown, _ = mint(ACME.id, pepper=PEPPER, now=0.0)
    told = set()
    for text in (unknown, SECRET[:-1] + ("x" if SECRET[-1] != "x" else "y"), "psk_nonsense"):
        with pytest.raises(Unauthenticated) as caught:
            keys.authenticate(text)
        told.add(caught.value.message)
    assert len(told) == 1


def test_a_revoked_key_is_gone_with_the_next_snapshot(clock: ManualClock) -> None:
    """Revoking takes effect as soon as the push arrives."""
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,)))
    assert keys.authenticate(SECRET).key == KEY.id
    keys.replace(KeyRing(tenants=(ACME,)))
    with pytest.raises(Unauthenticated):
        keys.authenticate(SECRET)
    assert len(keys) == 0


def test_an_expiring_key_stops_by_itself(clock: ManualClock) -> None:
    """No push is needed for a key to expire."""
    secret, key = mint(ACME.id, pepper=PEPPER, now=0.0, expires_at=clock.now() + 10)
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(key,)))
    clock.advance(9.9)
    assert keys.authenticate(secret).key == key.id
    clock.advance(0.1)
    with pytest.raises(Unauthenticated):
        keys.authenticate(secret)


def test_another_platforms_key_does_not_work_here(clock: ManualClock) -> None:
    """The same record under another pepper is worthless, so a stolen table opens nothing."""
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,)), pepper=derive(b"z" * 32, Purpose.PEPPER))
    with pytest.raises(Unauthenticated):
        keys.authenticate(SECRET)


def test_a_key_without_its_tenant_is_left_out(clock: ManualClock) -> None:
    """A caller without a plan is not served."""
    assert len(ring(clock, KeyRing(keys=(KEY,)))) == 0


def test_only_scopes_that_count_something_are_drawn_on(clock: ManualClock) -> None:
    """A caller without counted bounds has no scopes; each of key, tenant and organisation adds its own."""
    assert ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,))).authenticate(SECRET).scopes == ()
    bound = Plan(requests_per_min=5)
    org = Org(id=OrgId("group"), name="Group", plan=bound)
    member, key = replace(ACME, plan=bound, org=org.id), replace(KEY, plan=bound)
    whole = KeyRing(tenants=(member,), keys=(key,), orgs=(org,))
    who = ring(clock, whole).authenticate(SECRET)
    names = (f"key:{KEY.id}", "tenant:acme", "org:group")
    assert who.scopes == whole.scopes() == tuple(Scope(name=name, plan=bound) for name in names)


def test_the_tightest_deadline_and_output_bound_count(clock: ManualClock) -> None:
    """A key can be held shorter than its tenant, never longer; class and weight are the tenant's."""
    tenant = replace(ACME, plan=Plan(weight=3, max_output_tokens=100))
    key = replace(KEY, plan=Plan(weight=9, max_output_tokens=500, deadline_s=8.0))
    org = Org(id=DEFAULT_ORG, name="", plan=Plan(deadline_s=4.0))
    plan = ring(clock, KeyRing(tenants=(tenant,), keys=(key,), orgs=(org,))).authenticate(SECRET).plan
    assert plan == Plan(weight=3, max_output_tokens=100, deadline_s=4.0)


def test_an_auditors_key_asks_no_model(clock: ManualClock) -> None:
    """It is known and still forbidden here; a wrong secret is not told even that."""
    secret, key = mint(ACME.id, pepper=PEPPER, now=0.0, role=Role.AUDITOR)
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(key,)))
    with pytest.raises(Forbidden):
        keys.authenticate(secret)
    with pytest.raises(Unauthenticated):
        keys.authenticate(secret[:-1] + ("x" if secret[-1] != "x" else "y"))


def test_a_copy_from_before_organisations_still_serves(clock: ManualClock) -> None:
    """A snapshot on disk that an older program wrote names no organisations, and its keys work."""
    old = msgspec.to_builtins(KeyRing(tenants=(ACME,), keys=(KEY,)))
    del old["orgs"], old["tenants"][0]["org"], old["keys"][0]["plan"]
    who = ring(clock, msgspec.convert(old, KeyRing)).authenticate(SECRET)
    assert (who.tenant, who.scopes, who.plan.weight) == ("acme", (), 3)


def test_identifying_is_cheap(clock: ManualClock) -> None:
    """A key costs microseconds, not a password hash's hundred milliseconds."""
    keys = ring(clock, KeyRing(tenants=(ACME,), keys=(KEY,)))
    started = time.process_time()
    for _ in range(2000):
        keys.authenticate(SECRET)
    assert (time.process_time() - started) / 2000 < 100e-6
