"""Safety packs by the operators' API: pushed, refused with reason, rolled back, assigned; each act audited."""

import json
from dataclasses import replace

import httpx
import pytest

from penstock.domain.ids import VersionId
from penstock.domain.models.model import Task
from penstock.domain.tenancy.tenant import Role
from penstock.filters import evidence
from penstock.filters.evidence import MatchText
from tests.support.controllers.in_memory import Room, new_model, registered
from tests.support.samples import control_plane as things
from tests.support.samples.interventions import intervention

SAFETY = "/admin/v1/safety"
RULE = "rules: [{name: key, category: secrets, action: block, regex: '%s'}]"


def yaml(version: int, regex: str = "key-[0-9]{4}") -> dict[str, str]:
    return {"pack": f"id: own\nversion: {version}\n{RULE % regex}\n"}


async def test_a_pack_is_pushed_and_rolled_back(room: Room) -> None:
    """The list tells which version is current; the audit log names pack and digest."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        for version in (1, 2):
            made = await operator.post(f"{SAFETY}/packs", json=yaml(version))
            assert (made.status_code, made.json()["version"]) == (201, version)
        back = (await operator.post(f"{SAFETY}/packs/own/rollback", json={})).json()
        assert (back["version"], back["is_current"], back["rules"]) == (1, True, ["key"])
        again = await operator.post(f"{SAFETY}/packs/own/rollback", json={"version": 2})
        assert again.json()["version"] == 2
        listed = (await operator.get(f"{SAFETY}/packs")).json()
        assert [(one["version"], one["is_current"]) for one in listed["packs"]] == [(2, True), (1, False)]
        assert '"key-[0-9]{4}"' in (await operator.get(f"{SAFETY}/packs/own")).json()["pack"]
    acts = [(act.what, act.target, act.detail) for act in await room.audit.newest(10)]
    assert ("safety.rollback", "own", back["digest"][:12]) in acts


@pytest.mark.parametrize(
    ("route", "body", "status", "param", "words"),
    [
        ("POST /packs", yaml(2, "a*"), 400, "rules[0].regex", "without a bound"),
        ("POST /packs", {"pack": "id: [own"}, 400, "pack", "no YAML"),
        ("POST /packs", yaml(1, "other"), 409, None, "raise its version"),
        ("POST /packs/own/rollback", {}, 409, None, "the only version"),
        ("POST /packs/own/rollback", {"version": 9}, 400, "version", "no version 9"),
        ("POST /packs/none/rollback", {}, 400, "pack", "there are: own"),
        ("PUT /floor", {"packs": ["none"]}, 400, "packs", "there are: own"),
        ("PUT /floor", {"packs": ["own", "own"]}, 400, "packs", "own is named twice: leave one out"),
        ("POST /packs", {"pack": "id: own\nversion: 2\nversion: 3"}, 400, "pack", "line 3: version stands twice"),
    ],
)
async def test_what_is_not_valid_is_refused_and_the_pack_stays(
    room: Room, route: str, body: dict[str, object], status: int, param: str | None, words: str
) -> None:
    """With the field, the reason and what there is; the last good version filters on."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        await operator.post(f"{SAFETY}/packs", json=yaml(1))
        method, path = route.split()
        refused = await operator.request(method, f"{SAFETY}{path}", json=body)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (status, param), error
        assert words in error["message"]
        listed = (await operator.get(f"{SAFETY}/packs")).json()
        assert [(one["version"], one["is_current"]) for one in listed["packs"]] == [(1, True)]
    assert [act.what for act in await room.audit.newest(10)].count("safety.push") == 1


async def test_packs_are_assigned_to_a_tenant_and_to_the_platform(room: Room) -> None:
    """A tenant's by its plan, the platform's by the floor; a pack that does not exist is refused by name."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        await operator.post(f"{SAFETY}/packs", json=yaml(1))
        assert (await operator.put(f"{SAFETY}/floor", json={"packs": ["own"]})).json() == {"packs": ["own"]}
        plan = "/admin/v1/tenants/acme/plan"
        assert (await operator.patch(plan, json={"safety": "own"})).json()["safety"] == "own"
        refused = await operator.patch(plan, json={"safety": "own,none"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "safety")


async def test_a_tenant_sees_its_own_interventions_alone(room: Room) -> None:
    """An auditor of a tenant asks for no other's; operators see all."""
    room.packs.interventions += [intervention("r1"), intervention("r2", tenant="beta", at=9.0)]
    async with room.client(await room.key(Role.AUDITOR, tenant="acme")) as own:
        assert [one["request"] for one in (await own.get(f"{SAFETY}/events")).json()["events"]] == ["r1"]
        assert (await own.get(f"{SAFETY}/events?tenant=beta")).status_code == 403
        assert (await own.get(f"{SAFETY}/packs")).status_code == 403
    async with room.client(await room.key(Role.AUDITOR)) as overseer:
        assert len((await overseer.get(f"{SAFETY}/events")).json()["events"]) == 2


def asking(**confirm: object) -> dict[str, str]:
    """Return a pack with a rule that asks a model."""
    rule = {"name": "threat", "category": "abuse", "action": "block", "phrases": ["kill"]}
    return {"pack": json.dumps({"id": "own", "version": 1, "rules": [{**rule, "confirm": confirm}]})}


async def test_a_model_that_a_rule_asks_has_to_be_one_of_the_platform(room: Room) -> None:
    """A model that is unknown, does not answer that way, or is under the pack itself is refused by name."""
    guard = {"prompt": "{text}", "unsafe": "yes", "safe": "no", "threshold": 0.5}
    async with room.client(await room.key(Role.ADMIN)) as operator:
        generates = await registered(operator)
        encodes = replace(things.manifest("encoder"), task=Task.EMBED)
        encoder = (await operator.post("/admin/v1/models", json=new_model(encodes))).json()["id"]
        for body, words in (
            (asking(model="none", **guard), "names no model of this platform: none"),
            (asking(model=encoder, **guard), "is no guard model"),
            (asking(model=generates, like=["I kill you"], threshold=0.5), "is no encoder"),
        ):
            refused = await operator.post(f"{SAFETY}/packs", json=body)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "rules[0].confirm.model")
            assert words in refused.json()["error"]["message"]
        assert (await operator.post(f"{SAFETY}/packs", json=asking(model=generates, **guard))).status_code == 201
        under = replace(things.manifest(seed="c"), safety=("own",))
        refused = await operator.post("/admin/v1/models", json=new_model(under))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "manifest.safety")


GUARD = {"model": "guard", "prompt": "{text}", "unsafe": "yes", "safe": "no", "threshold": 0.5}


async def _guarded(room: Room, operator: httpx.AsyncClient) -> tuple[str, str]:
    """Return a guard model behind an alias, which the floor's pack asks, and an encoder."""
    guard = await registered(operator)
    encodes = replace(things.manifest("encoder"), task=Task.EMBED)
    encoder = (await operator.post("/admin/v1/models", json=new_model(encodes))).json()["id"]
    await operator.put(f"/admin/v1/deployments/{guard}", json={"replicas": 1})
    await room.loop.tick()
    await operator.put("/admin/v1/aliases/guard", json={"shares": [{"version": guard, "weight": 10_000}]})
    await operator.post(f"{SAFETY}/packs", json=asking(**GUARD))
    await operator.put(f"{SAFETY}/floor", json={"packs": ["own"]})
    return guard, encoder


async def test_a_model_that_a_pack_in_force_asks_is_not_taken_away(room: Room) -> None:
    """Not its alias, its workers, its owners or its task; of a pack that nobody names it may be."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        guard, encoder = await _guarded(room, operator)
        led: dict[str, object] = {"shares": [{"version": encoder, "weight": 10_000}]}
        deployed = f"/deployments/{guard}"
        number = (await room.tables.latest()).number
        takes: list[tuple[str, str, dict[str, object] | None, str]] = [
            ("PUT", "/aliases/guard", led, "is no guard model"),
            ("PUT", deployed, {"replicas": 0}, "has no worker"),
            ("PUT", f"/models/{guard}/tenants", {"tenants": ["acme"]}, "belongs to some tenants alone"),
            ("DELETE", "/aliases/guard", None, "names no model"),
            ("POST", "/table/rollback", {"number": number}, "names no model"),
        ]
        for method, path, body, words in takes:
            refused = await operator.request(method, f"/admin/v1{path}", json=body)
            assert refused.status_code == 409, (path, refused.text)
            said = refused.json()["error"]["message"]
            assert "the pack own@1 is in force, and confirm.model of its rule threat then" in said
            assert words in said
        assert (await operator.put(f"/admin/v1{deployed}", json={"replicas": 2})).status_code == 200
        await operator.put(f"{SAFETY}/floor", json={"packs": []})
        for method, path, body, _ in takes:
            assert (await operator.request(method, f"/admin/v1{path}", json=body)).status_code < 300, path


async def test_packs_are_shown_with_models_that_are_away(room: Room) -> None:
    """By rule, with the reason, as long as no worker answers for it."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        guard, _ = await _guarded(room, operator)
        pack = (await operator.get(f"{SAFETY}/packs")).json()["packs"][0]
        assert pack["away"] == {"threat": f"has no worker: {guard}"}
        room.heartbeats.take(things.report("w1", VersionId(guard)))
        await room.loop.tick()
        assert (await operator.get(f"{SAFETY}/packs")).json()["packs"][0]["away"] == {}


async def test_kept_texts_are_shown_to_their_tenant_and_each_look_is_an_act(room: Room) -> None:
    """An admin sees its own tenant's, an auditor none; what was shredded has no text."""
    mine, others = intervention("r1"), intervention("r2", tenant="beta")
    room.packs.interventions += [mine, others]
    keys = room.control.sealing.content()
    for one in (mine, others):
        room.packs.kept.append(evidence.sealed(one, MatchText("my secret"), await keys.newest(one.tenant), 9.0))
    path = f"{SAFETY}/matches"
    async with room.client(await room.key(Role.ADMIN, tenant="acme")) as own:
        (shown,) = (await own.post(path, json={})).json()["matches"]
        assert (shown["event"]["request"], shown["text"]) == ("r1", "my secret")
        assert (await own.post(path, json={"tenant": "beta"})).status_code == 403
        room.key_rows.stored.clear()
        assert (await own.post(path, json={})).json()["matches"][0]["text"] is None
    async with room.client(await room.key(Role.AUDITOR, tenant="acme")) as auditor:
        assert (await auditor.post(path, json={})).status_code == 403
    async with room.client(await room.key(Role.ADMIN)) as operator:
        refused = await operator.post(path, json={})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tenant")
        assert (await operator.post(path, json={"tenant": "beta", "limit": 0})).json()["error"]["param"] == "limit"
    acts = [act for act in await room.audit.newest(10) if act.what == "safety.matches"]
    assert {(act.tenant, act.detail) for act in acts} == {("acme", "1 texts")}
    assert len(acts) == 2
