"""Operators: keys of what tenants store, their rotation, and deletions with receipts."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query

from penstock.control.api.access import AdminCaller
from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import NewDeletion
from penstock.control.api.deps import Control, Controlled, Operator, Overseer
from penstock.control.api.wire import Sent
from penstock.domain.errors import InvalidField
from penstock.domain.ids import TenantId
from penstock.domain.jobs.deletion import HEARD_S, Deletion, DeletionId, Scope, ids_of, user_mark

router = APIRouter(tags=["privacy"], route_class=ActRoute)
MOST_CHARS = 128
"""Characters of a request's id."""
BOUNDS = ("request", "user", "before")
MOST_SHOWN, MOST_ID = 1000, 1 << 63


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


class DeletionState(StrEnum):
    """Runners and gateways sweep what is in its scope; then a controller signs the receipt."""

    SWEEPING = "sweeping"
    SIGNING = "signing"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionShown:
    """A deletion, and its receipt with a signature in Base64; both are empty until it is done.

    ``user_mark`` is a keyed digest of the named user.
    """

    id: int
    state: DeletionState
    tenant: str
    request: str
    user_mark: str
    before: float
    asked_by: str
    asked_at: float
    counts: Mapping[str, int]
    receipt: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionList:
    """Deletions of all tenants or of one, newest first."""

    deletions: tuple[DeletionShown, ...]


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


@router.post("/tenants/{tenant}/privacy/delete", status_code=202)
async def delete(control: Controlled, caller: Operator, tenant: TenantId, body: Sent[NewDeletion]) -> DeletionShown:
    """Delete what a tenant has stored: everything, or only of one request or user, or what is older.

    Of everything the keys are shredded at once. Ledger and audit log stay. The same deletion twice is one.
    """
    training_use = (await control.tenant(tenant)).plan.training_use
    new = _asked(control, caller, tenant, body)._replace(training_use=training_use)
    act = replace(control.act(caller, "privacy.delete", tenant, tenant=tenant), detail=_detail(new.scope))
    return _shown(await control.deletions.begin(new, act))


@router.get("/privacy/deletions")
async def deletions(
    control: Controlled, _: Overseer, tenant: str = "", limit: Annotated[int, Query(ge=1, le=MOST_SHOWN)] = 50
) -> DeletionList:
    """List deletions, newest first, of all tenants or of one."""
    return DeletionList(deletions=tuple(map(_shown, await control.deletions.newest(tenant, limit))))


@router.get("/privacy/deletions/{deletion}")
async def one_deletion(control: Controlled, _: Overseer, deletion: int) -> DeletionShown:
    """Show a deletion, and its receipt once it is done."""
    found = await control.deletions.find(DeletionId(deletion)) if 0 < deletion < MOST_ID else None
    if found is None:
        raise InvalidField(f"there is no deletion {deletion}", param="deletion")
    return _shown(found)


def _asked(control: Control, caller: AdminCaller, tenant: TenantId, body: NewDeletion) -> Deletion:
    now = control.clock.now()
    _check(body, now)
    mark = user_mark(control.secrets.platform_keys[0], tenant, body.user) if body.user else ""
    return Deletion(
        id=DeletionId(0),
        scope=Scope(tenant, body.request or "", mark, body.before or 0.0),
        until=body.before or now + HEARD_S,
        asked_by=caller.key.id,
        asked_at=now,
        found=ids_of([body.request]) if body.request else None,
    )


def _check(body: NewDeletion, now: float) -> None:
    """Refuse an empty bound: it would delete everything."""
    given = [name for name in BOUNDS if getattr(body, name) is not None]
    if body.everything == bool(given):
        raise InvalidField(f"everything is given alone, or {', '.join(BOUNDS)} in its place", param="everything")
    for name in given:
        if not getattr(body, name):
            raise InvalidField(f"{name} is empty, which bounds nothing: leave it out and say `everything`", param=name)
    if body.request and len(given) > 1:
        raise InvalidField("a request is named alone, without user or before", param="request")
    if body.before is not None and not 0 < body.before <= now:
        raise InvalidField("before is a Unix second that has passed", param="before")
    if body.request and (len(body.request) > MOST_CHARS or "\0" in body.request):
        raise InvalidField(f"at most {MOST_CHARS} characters, none of them NUL", param="request")


def _detail(scope: Scope) -> str:
    told = (f"{name}={value}" for name, value in scope._asdict().items() if value and name != "tenant")
    return ", ".join(told) or "everything"


def _shown(one: Deletion) -> DeletionShown:
    state = DeletionState.SIGNING if one.swept_at and one.answers_at else DeletionState.SWEEPING
    return DeletionShown(
        id=one.id,
        state=DeletionState.DONE if one.ended_at else state,
        **one.scope._asdict(),
        asked_by=one.asked_by,
        asked_at=one.asked_at,
        counts=one.counts._asdict(),
        receipt=one.receipt,
        signature=base64.b64encode(one.signature).decode(),
    )
