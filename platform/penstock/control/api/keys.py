"""API keys, for operators and tenants of their own. A secret is returned once, in the answer that created it."""

from dataclasses import dataclass, fields, replace
from typing import Any

from fastapi import APIRouter

from penstock.control.api import plans
from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import NewKey, PlanChange, Rotation
from penstock.control.api.deps import Control, Controlled, Manager, Reader
from penstock.control.api.wire import Sent
from penstock.domain.errors import InvalidField
from penstock.domain.ids import Alias, KeyId, TenantId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import ApiKey, Plan, Role, ScopeId, ScopeKind

MOST_S = 100 * 365 * 86_400
router = APIRouter(prefix="/keys", tags=["keys"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShown:
    """A key without its hash."""

    id: KeyId
    tenant: TenantId
    role: Role
    models: tuple[Alias, ...]
    created_at: float
    expires_at: float
    revoked_at: float
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMade(KeyShown):
    """A new key with its secret, which is shown only once."""

    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """The keys that the caller's key may see."""

    keys: tuple[KeyShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRevoked:
    """A revoked key, and the time of its revocation (Unix seconds)."""

    id: KeyId
    revoked_at: float


@router.post("", status_code=201)
async def make(control: Controlled, caller: Manager, body: Sent[NewKey]) -> KeyMade:
    """Make a key and show it once; its plan bounds this key alone, below its tenant's bounds."""
    caller.check_tenant(body.tenant)
    caller.check_models(body.models)
    act = control.act(caller, "key.mint", tenant=body.tenant)
    _check_seconds(body.expires_in_s, "expires_in_s")
    plan = plans.checked(body.plan, ScopeKind.KEY)
    await control.tenant(body.tenant)
    secret, made = mint(
        body.tenant,
        pepper=control.secrets.pepper,
        now=act.at,
        role=body.role,
        models=body.models,
        expires_at=act.at + body.expires_in_s if body.expires_in_s else 0.0,
    )
    key = replace(made, plan=plan)
    await control.tenancy.add_key(key, replace(act, target=key.id, detail=f"{key.role} key of {key.tenant}"))
    return KeyMade(**_shown(key), secret=secret)


@router.get("")
async def keys(control: Controlled, caller: Reader) -> KeyList:
    """List keys without their hashes: all to operators, its own tenant's to any other key."""
    found = await control.tenancy.keys()
    return KeyList(keys=tuple(KeyShown(**_shown(one)) for one in found if caller.sees(one.tenant)))


@router.patch("/{key}/plan")
async def change(control: Controlled, caller: Manager, key: KeyId, body: Sent[PlanChange]) -> Plan:
    """Change a key's own bounds; a bound left out stays."""
    act = await _act(control, caller, "key.plan", key)
    return await plans.change(control.tenancy, ScopeId(kind=ScopeKind.KEY, id=key), body, act)


@router.post("/{key}/revoke")
async def revoke(control: Controlled, caller: Manager, key: KeyId) -> KeyRevoked:
    """Revoke a key: within seconds no gateway accepts it."""
    act = await _act(control, caller, "key.revoke", key)
    if not await control.tenancy.revoke_key(key, act):
        raise InvalidField("there is no valid key with this id", param="key")
    return KeyRevoked(id=key, revoked_at=act.at)


@router.post("/{key}/rotate", status_code=201)
async def rotate(control: Controlled, caller: Manager, key: KeyId, body: Sent[Rotation]) -> KeyMade:
    """Make a key's successor; the old key stays valid for the overlap, at most.

    The successor has the old key's bounds and a meter of its own: what the old key spent stays with its tenant.
    """
    act = await _act(control, caller, "key.rotate", key)
    _check_seconds(body.overlap_s, "overlap_s")
    old = await control.tenancy.key(key)
    if old is None or not old.valid_at(act.at):
        raise InvalidField("there is no valid key with this id", param="key")
    caller.check_models(old.models)
    secret, made = mint(
        old.tenant,
        pepper=control.secrets.pepper,
        now=act.at,
        role=old.role,
        models=old.models,
        expires_at=old.expires_at,
    )
    new = replace(made, plan=old.plan)
    await control.tenancy.rotate_key(key, new, act.at + body.overlap_s, replace(act, detail=f"successor {new.id}"))
    return KeyMade(**_shown(new), secret=secret)


async def _act(control: Control, caller: Manager, what: str, key: KeyId) -> Act:
    """Return the act; a key of a tenant that the caller may not see counts as missing."""
    known = await control.tenancy.key(key)
    if known is None or not caller.sees(known.tenant):
        raise InvalidField("there is no such key", param="key")
    return control.act(caller, what, key, tenant=known.tenant)


def _shown(key: ApiKey) -> dict[str, Any]:
    return {one.name: getattr(key, one.name) for one in fields(KeyShown)}


def _check_seconds(value: float, param: str) -> None:
    if not 0 <= value <= MOST_S:
        raise InvalidField(f"seconds are from 0 to {MOST_S} (a hundred years)", param=param)
