"""Rotation of tenants' keys and of the key that wraps them, at the operators' API."""

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
