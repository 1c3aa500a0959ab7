"""Rotation of tenants' keys and of the key that wraps them, at the operators' API."""

import pytest

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import Role
from penstock.sealing.administration import REWRAPPED_AT_ONCE
from penstock.sealing.keys import Context, KeyPurpose
from penstock.sealing.local import LocalEncryption
from tests.support.controllers.in_memory import Room

PRIVACY = "/admin/v1/privacy"


async def test_all_keys_come_under_the_present_key(room: Room) -> None:
    """After an exchange of the platform's key each call wraps some, until none is left; secrets stay the same."""
    before = LocalEncryption(lambda: room.platform_keys[-1:])
    async with room.client(await room.key(Role.ADMIN)) as operator:
        for _ in range(REWRAPPED_AT_ONCE):
            assert (await operator.post("/admin/v1/tenants/acme/privacy/rotate")).status_code == 200
        secrets = {key.id: await before.unwrap(key.wrapped, key.context) for key in room.key_rows.stored.values()}
        room.platform_keys.insert(0, b"q" * 32)
        told = [(await operator.post(f"{PRIVACY}/rewrap")).json()["keys"] for _ in range(3)]
        assert told == [REWRAPPED_AT_ONCE, REWRAPPED_AT_ONCE, 0]
        room.platform_keys.pop()
        found = (await operator.get(PRIVACY)).json()
    assert {one["wrapped_by"] for one in found["keys"]} == {found["key_encryption_key"]}
    now = LocalEncryption(lambda: room.platform_keys)
    assert secrets == {key.id: await now.unwrap(key.wrapped, key.context) for key in room.key_rows.stored.values()}
    acts = [act.what for act in await room.audit.newest(3)]
    assert acts == ["privacy.rewrap"] * 3


async def test_a_rotation_makes_a_key_for_each_purpose(room: Room) -> None:
    """It is noted with its tenant; an unknown tenant gets none."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        assert (await operator.post("/admin/v1/tenants/acme/privacy/rotate")).json() == {"tenant": "acme"}
        assert (await operator.post("/admin/v1/tenants/none/privacy/rotate")).json()["error"]["param"] == "tenant"
    contexts = {key.context for key in room.key_rows.stored.values()}
    assert contexts == {Context(TenantId("acme"), purpose, "local") for purpose in KeyPurpose}
    (act,) = [act for act in await room.audit.newest(9) if act.what.startswith("privacy")]
    assert (act.what, act.tenant) == ("privacy.rotate", "acme")


async def test_a_deletion_is_asked_for_once_and_names_no_user(room: Room) -> None:
    """The same one again is the same; row, audit log and answer have a digest in place of the user."""
    path = "/admin/v1/tenants/acme/privacy/delete"
    async with room.client(await room.key(Role.ADMIN)) as operator:
        asked = [await operator.post(path, json={"user": "jane@example.com"}) for _ in range(2)]
        whole = (await operator.post(path, json={"everything": True})).json()
        listed = (await operator.get(f"{PRIVACY}/deletions?tenant=acme")).json()["deletions"]
        one = (await operator.get(f"{PRIVACY}/deletions/{whole['id']}")).json()
        others = (await operator.get(f"{PRIVACY}/deletions?tenant=shop")).json()["deletions"]
    told = asked[0].json()
    assert ([one.status_code for one in asked], asked[1].json()) == ([202, 202], told)
    assert (told["state"], told["receipt"], len(told["user_mark"])) == ("sweeping", "", 64)
    assert ([one["id"] for one in listed], one, others) == ([whole["id"], told["id"]], whole, [])
    acts = [act for act in await room.audit.newest(9) if act.what == "privacy.delete"]
    assert [(act.tenant, act.detail) for act in acts] == [
        ("acme", "everything"),
        ("acme", f"user_mark={told['user_mark']}"),
    ]
    assert "jane" not in str((listed, acts))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"request": "job_1", "user": "u"}, "request"),
        ({"request": "job_1", "before": 1}, "request"),
        ({"before": 9e12}, "before"),
        ({"before": -1}, "before"),
        ({"user": "u" * 4097}, "user"),
        ({}, "everything"),
        ({"everything": False}, "everything"),
        ({"everything": True, "user": "u"}, "everything"),
        ({"user": ""}, "user"),
        ({"request": ""}, "request"),
        ({"before": 0}, "before"),
        ({"before": -0.0, "user": "u"}, "before"),
        ({"user": "u", "request": ""}, "request"),
        ({"request": "a\0b"}, "request"),
        ({"users": "u"}, "users"),
    ],
)
async def test_a_scope_that_means_nothing_is_refused(room: Room, body: dict[str, object], param: str) -> None:
    """With its field; nothing is deleted and noted."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        answer = await operator.post("/admin/v1/tenants/acme/privacy/delete", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
        missing = [(await operator.get(f"{PRIVACY}/deletions/{number}")).status_code for number in (0, 7, 1 << 70)]
        none = await operator.post("/admin/v1/tenants/none/privacy/delete", json={"everything": True})
    assert (missing, none.json()["error"]["param"], room.deletions.rows) == ([400, 400, 400], "tenant", {})


async def test_training_use_is_off_and_its_change_is_noted(room: Room) -> None:
    """It is a field of the plan like any other, and off in each that does not say so."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        tenants = (await operator.get("/admin/v1/tenants")).json()["tenants"]
        assert {one["plan"]["training_use"] for one in tenants} == {False}
        await operator.patch("/admin/v1/tenants/acme/plan", json={"training_use": True})
    assert (await room.audit.newest(1))[0].detail == "training_use=True"
