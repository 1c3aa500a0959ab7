"""Whose versions are, over the operators' API: said at the push or later, on record, and kept whatever goes back."""

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from penstock.domain.models.model import Manifest, digest_of
from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.controllers.rollouts import WHY, Site, chat
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things

ADMIN = "/admin/v1"


@pytest.fixture
async def operator(operator: httpx.AsyncClient, room: Room) -> httpx.AsyncClient:
    """Return a client with an admin key; there are the tenants acme and beta."""
    await room.key(Role.INFER, tenant="acme")
    assert (await operator.post(f"{ADMIN}/tenants", json={"id": "beta"})).status_code == 201
    return operator


async def push(operator: httpx.AsyncClient, manifest: Manifest, *tenants: str) -> httpx.Response:
    body: dict[str, Any] = {"manifest": asdict(manifest), "signature": f"signatures/{digest_of(manifest)}"}
    return await operator.post(f"{ADMIN}/models", json={**body, "tenants": tenants} if tenants else body)


async def shown(operator: httpx.AsyncClient) -> dict[str, list[str] | None]:
    return {one["id"]: one["tenants"] for one in (await operator.get(f"{ADMIN}/models")).json()["models"]}


async def test_a_version_is_its_tenants_from_the_push_on(operator: httpx.AsyncClient, room: Room) -> None:
    """Each once and in order; the same bytes for the same tenants are the same version, for others a conflict."""
    first = await push(operator, things.manifest(), "beta", "acme", "beta")
    version = first.json()["id"]
    assert first.status_code == 201
    assert await shown(operator) == {version: ["acme", "beta"]}
    for again in (("acme", "beta"), ()):
        assert (await push(operator, things.manifest(), *again)).json() == first.json()
    other = await push(operator, things.manifest(), "acme")
    assert (other.status_code, f"from all others, penstock models tenants {version} acme" in other.text) == (409, True)
    assert await shown(operator) == {version: ["acme", "beta"]}
    assert (await room.audit.newest(1))[0].detail == "for acme, beta"
    await room.key(Role.INFER, tenant="coda")
    more = await push(operator, things.manifest(), "coda")
    assert f"to add these, penstock models tenants {version} acme,beta,coda" in more.text


async def test_it_is_changed_later_and_on_record(operator: httpx.AsyncClient, room: Room) -> None:
    """Null is everybody; the next table has it, and who changed it is in the audit log."""
    version = (await push(operator, things.manifest())).json()["id"]
    await operator.put(f"{ADMIN}/aliases/chat", json={"shares": [{"version": version, "weight": 10_000}]})
    for tenants in (["acme"], None):
        changed = await operator.put(f"{ADMIN}/models/{version}/tenants", json={"tenants": tenants})
        told = {"version": version, "tenants": tenants, "aliases": ["chat"]}
        assert (changed.status_code, changed.json()) == (200, told)
        table = (await room.loop.tick()).table
        assert [one.tenants for one in table.versions] == [tuple(tenants) if tenants else None]
    acts = [(act.what, act.target, act.detail) for act in await room.audit.newest(2)]
    assert acts == [("model.tenants", version, "for everybody"), ("model.tenants", version, "for acme")]


@pytest.mark.parametrize(
    ("tenants", "says"),
    [(["nobody"], "there is no tenant nobody"), ([], "at least one"), (["acme"] * 2 + [""], "no tenant")],
)
async def test_what_can_not_be_is_refused(operator: httpx.AsyncClient, tenants: list[str], says: str) -> None:
    """Strangers and nobody at all, at the push as later; a version that there is not is a 404."""
    version = (await push(operator, things.manifest())).json()["id"]
    refused = await operator.put(f"{ADMIN}/models/{version}/tenants", json={"tenants": tenants})
    assert (refused.status_code, refused.json()["error"]["param"], says in refused.text) == (400, "tenants", True)
    manifest = things.manifest(seed="c")
    body = {"manifest": asdict(manifest), "signature": f"signatures/{digest_of(manifest)}", "tenants": tenants}
    assert (await operator.post(f"{ADMIN}/models", json=body)).status_code == 400
    assert await shown(operator) == {version: None}
    missing = await operator.put(f"{ADMIN}/models/no@000000000000/tenants", json={"tenants": ["acme"]})
    assert missing.status_code == 404


async def test_a_tenants_own_admin_changes_nothing(operator: httpx.AsyncClient, room: Room) -> None:
    """Whose a version is, operators alone say."""
    version = (await push(operator, things.manifest())).json()["id"]
    async with room.client(await room.key(Role.ADMIN, tenant="acme")) as own:
        refused = await own.put(f"{ADMIN}/models/{version}/tenants", json={"tenants": ["acme"]})
        assert refused.status_code == 403
        assert (await own.get(f"{ADMIN}/models")).status_code == 403


async def test_an_override_gives_nobody_what_is_others(operator: httpx.AsyncClient) -> None:
    """Nor an adapter whose base is; the refusal says how it would be possible."""
    base = (await push(operator, adapter_versions.BASE.manifest, "acme")).json()["id"]
    lora = (await push(operator, adapter_versions.manifest())).json()["id"]
    for version in (base, lora):
        shares, own = [{"version": version, "weight": 10_000}], [{"tenant": "beta", "version": version}]
        body = {"shares": shares, "overrides": own}
        refused = await operator.put(f"{ADMIN}/aliases/chat", json=body)
        assert (refused.status_code, f"penstock models tenants {version}" in refused.text) == (400, True)
    assert await shown(operator) == {base: ["acme"], lora: ["acme"]}


async def test_an_older_table_does_not_bring_older_tenants_back(operator: httpx.AsyncClient, room: Room) -> None:
    """Not even for the moment until the next tick."""
    version = (await push(operator, things.manifest())).json()["id"]
    other = (await push(operator, things.manifest(seed="c"))).json()["id"]
    for at in (version, other):
        await operator.put(f"{ADMIN}/aliases/chat", json={"shares": [{"version": at, "weight": 10_000}]})
        await room.loop.tick()
    await operator.put(f"{ADMIN}/models/{version}/tenants", json={"tenants": ["acme"]})
    assert (await operator.post(f"{ADMIN}/table/rollback", json={"number": 1})).status_code == 200
    table = await room.tables.latest()
    assert [(one.id, one.tenants) for one in table.versions] == [(version, ("acme",))]


@pytest.fixture
async def site(clock: ManualClock) -> AsyncIterator[Site]:
    """Yield an alias at one version, and an operator."""
    async with chat(Room(clock)) as found:
        yield found


async def test_no_refusal_tells_how_to_open_what_is_nobodys(site: Site) -> None:
    """An adapter of two tenants, of whom its base has the other one, is for nobody: that is no reason for everybody."""
    for tenant in ("acme", "beta"):
        await site.room.key(Role.INFER, tenant=tenant)
    base = await site.version(adapter_versions.BASE.manifest)
    lora = await site.adapter(adapter_versions.manifest())
    for version, tenant in ((base, "acme"), (lora, "beta")):
        await site.operator.put(f"{ADMIN}/models/{version}/tenants", json={"tenants": [tenant]})
    await site.lead(lora)
    refused = await site.start(base)
    assert (refused.status_code, "--everybody" in refused.text) == (400, False)


async def test_a_rollout_stays_among_the_same_tenants(site: Site) -> None:
    """From everybody's to some tenants' the others would lose the alias; and while it runs, nobody's tenants change."""
    await site.room.key(Role.INFER, tenant="acme")
    base = await site.version(adapter_versions.BASE.manifest)
    old, new = [await site.adapter(adapter_versions.manifest(seed=seed)) for seed in "ed"]
    await site.lead(old)
    own = {"tenants": ["acme"]}
    await site.operator.put(f"{ADMIN}/models/{new}/tenants", json=own)
    refused = await site.start(new)
    assert (refused.status_code, f"penstock models tenants {new} --everybody" in refused.text) == (400, True)
    await site.operator.put(f"{ADMIN}/models/{old}/tenants", json=own)
    started = await site.start(new)
    assert started.status_code == 201
    for version in (old, new, base):
        busy = await site.operator.put(f"{ADMIN}/models/{version}/tenants", json={"tenants": None})
        assert (busy.status_code, "takes part in the rollout" in busy.text) == (409, True)
    await site.operator.post(f"{ADMIN}/rollouts/{started.json()['id']}/abort", json=WHY)
    assert (await site.operator.put(f"{ADMIN}/models/{old}/tenants", json={"tenants": None})).status_code == 200
