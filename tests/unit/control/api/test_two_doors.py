"""The gateways and the operators' API take the same keys, and refuse the same with the same words."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.domain.errors import Forbidden, Unauthenticated
from penstock.domain.ids import TenantId
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import OPERATORS, ApiKey, KeyRing, Role
from penstock.gateway.identity.keyring import Keyring
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import PEPPER, Room
from tests.support.samples import control_plane as things

ENDED = "this API key was revoked or has expired"
BAD: dict[str, tuple[Callable[[str], str], Callable[[ApiKey, float], ApiKey]]] = {
    "none": (lambda _: "", lambda key, _: key),
    "no key": (lambda _: "psk_nonsense", lambda key, _: key),
    "not ASCII": (lambda secret: "é" * len(secret), lambda key, _: key),
    "cut": (lambda secret: secret[:-1], lambda key, _: key),
    "another secret": (lambda secret: secret[:-1] + ("x" if secret[-1] != "x" else "y"), lambda key, _: key),
    "another id": (lambda secret: secret.replace(secret[4:16], "A" * 12), lambda key, _: key),
    "another pepper": (lambda secret: secret, lambda key, _: replace(key, secret_hash="0" * 64)),
    "revoked": (lambda secret: secret, lambda key, now: replace(key, revoked_at=now)),
    "expired": (lambda secret: secret, lambda key, now: replace(key, expires_at=now)),
}


async def doors(room: Room, key: ApiKey) -> Keyring:
    """Return a gateway's keyring that knows what the controller knows."""
    await room.key(Role.ADMIN)
    await room.tenancy.add_key(key, things.act())
    gateway = Keyring(peppers=(PEPPER,), salt_key=b"s", now=room.clock.now)
    gateway.replace(KeyRing(keys=await room.tenancy.keys(), tenants=await room.tenancy.tenants()))
    return gateway


@pytest.mark.parametrize("kind", BAD)
async def test_both_refuse_a_bad_credential_alike(kind: str, room: Room, clock: ManualClock) -> None:
    """Whatever is wrong with it: one code, one status, one text; only the holder of the secret hears that it ended."""
    sent, stored = BAD[kind]
    secret, key = mint(OPERATORS, pepper=PEPPER, now=clock.now(), role=Role.ADMIN)
    gateway = await doors(room, stored(key, clock.now()))
    with pytest.raises(Unauthenticated) as refused:
        gateway.authenticate(sent(secret))
    async with room.client() as client:
        header = {b"authorization": b"Bearer " + sent(secret).encode("latin-1")}
        answer = await client.get("/admin/v1/status", headers=header)
    told = answer.json()["error"]
    assert (answer.status_code, told["code"]) == (401, refused.value.code)
    assert told["message"] == refused.value.message
    assert (told["message"] == ENDED) is (kind in {"revoked", "expired"})


@pytest.mark.parametrize("role", Role)
async def test_both_take_a_good_one_by_its_role(role: Role, room: Room, clock: ManualClock) -> None:
    """Until the instant that it ends; infer asks, auditor reads, admin does both."""
    secret, key = mint(TenantId("acme"), pepper=PEPPER, now=0.0, role=role, expires_at=clock.now() + 1)
    gateway = await doors(room, key)
    if role is Role.AUDITOR:
        with pytest.raises(Forbidden):
            gateway.authenticate(secret)
    else:
        assert gateway.authenticate(secret).key == key.id
    async with room.client(secret) as client:
        assert (await client.get("/admin/v1/keys")).status_code == (403 if role is Role.INFER else 200)
