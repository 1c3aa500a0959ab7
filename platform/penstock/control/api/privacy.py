"""Operators: keys of what tenants store, and their rotation."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter

from penstock.control.api.acts import ActRoute
from penstock.control.api.deps import Controlled, Operator, Overseer
from penstock.domain.ids import TenantId

router = APIRouter(tags=["privacy"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysShown:
    """Keys of one purpose under one key-encryption key."""

    wrapped_by: str
    purpose: str
    keys: int
    tenants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyStatus:
    """The key-encryption key of this region, and the tenants' keys by the one that wraps them."""

    key_encryption_key: str
    keys: Sequence[KeysShown]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrapped:
    """The number of keys wrapped anew; ask again until it is 0."""

    keys: int


@router.get("/privacy")
async def status(control: Controlled, _: Overseer) -> PrivacyStatus:
    """Tell by which key-encryption keys the tenants' keys are wrapped."""
    current, counts = await control.sealing.counts()
    return PrivacyStatus(key_encryption_key=current, keys=[KeysShown(**one._asdict()) for one in counts])


@router.post("/privacy/rewrap")
async def rewrap(control: Controlled, caller: Operator) -> Rewrapped:
    """Wrap some tenants' keys under the present key-encryption key; payloads stay as they are."""
    number = await control.sealing.rewrap()
    await control.audit.note(control.act(caller, "privacy.rewrap", f"{number} keys"))
    return Rewrapped(keys=number)


@router.post("/tenants/{tenant}/privacy/rotate")
async def rotate(control: Controlled, caller: Operator, tenant: TenantId) -> Rotated:
    """Give a tenant new keys: they seal within five minutes, and the former ones still open."""
    await control.tenant(tenant)
    await control.sealing.rotate(tenant)
    await control.audit.note(control.act(caller, "privacy.rotate", tenant, tenant=tenant))
    return Rotated(tenant=tenant)
