"""API keys, for operators and tenants of their own. A secret leaves this process once, in the answer that made it."""

import math
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from penstock.control.api import plans
from penstock.control.api.bodies import KeyMade, KeyShown, NewKey, PlanChange, Rotation, key_fields
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.domain.errors import InvalidField
from penstock.domain.ids import KeyId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import ScopeId, ScopeKind


class Keys:
    """Who may call, with what."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._store = control.tenancy

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["keys"])
        router.add_api_route("/keys", self.mint, methods=["POST"], status_code=201)
        router.add_api_route("/keys", self.keys, methods=["GET"])
        router.add_api_route("/keys/{key}/plan", self.change, methods=["PATCH"])
        router.add_api_route("/keys/{key}/revoke", self.revoke, methods=["POST"])
        router.add_api_route("/keys/{key}/rotate", self.rotate, methods=["POST"], status_code=201)
        return router

    async def mint(self, request: Request) -> Response:
        """Make a key and show it, this one time; its plan bounds this key alone, below its tenant's bounds."""
        caller = await self._control.manager(request)
        body = await read(request, NewKey)
        caller.check_tenant(body.tenant)
        caller.check_models(body.models)
        act = self._control.act_of(caller, "key.mint", tenant=body.tenant)
        _check_seconds(body.expires_in_s, "expires_in_s")
        plan = plans.checked(body.plan, ScopeKind.KEY)
        if body.tenant not in {tenant.id for tenant in await self._store.tenants()}:
            raise InvalidField(f"there is no tenant {body.tenant}", param="tenant")
        secret, made = mint(
            body.tenant,
            pepper=self._control.secrets.pepper,
            now=act.at,
            role=body.role,
            models=body.models,
            expires_at=act.at + body.expires_in_s if body.expires_in_s else 0.0,
        )
        key = replace(made, plan=plan)
        await self._store.add_key(key, replace(act, target=key.id, detail=f"{key.role} key of {key.tenant}"))
        return answer(KeyMade(**key_fields(key), secret=secret), 201)

    async def keys(self, request: Request) -> Response:
        """List keys without their hashes: all to operators, its own tenant's to any other key."""
        caller = await self._control.reader(request)
        return answer(
            {"keys": [KeyShown(**key_fields(one)) for one in await self._store.keys() if caller.sees(one.tenant)]}
        )

    async def change(self, request: Request, key: KeyId) -> Response:
        """Change a key's own bounds; what is not named stays."""
        act = await self._act(request, "key.plan", key)
        change = await read(request, PlanChange)
        return answer(await plans.change(self._store, ScopeId(kind=ScopeKind.KEY, id=key), change, act))

    async def revoke(self, request: Request, key: KeyId) -> Response:
        """Make a key worthless within seconds."""
        act = await self._act(request, "key.revoke", key)
        if not await self._store.revoke_key(key, act):
            raise InvalidField("there is no such key that still works", param="key")
        return answer({"id": key, "revoked_at": act.at})

    async def rotate(self, request: Request, key: KeyId) -> Response:
        """Make a key's successor; the old one works on for the overlap, at most.

        The successor has the old key's bounds and a meter of its own: what the old key spent stays with its tenant.
        """
        act = await self._act(request, "key.rotate", key)
        body = await read(request, Rotation)
        _check_seconds(body.overlap_s, "overlap_s")
        old = await self._store.key(key)
        if old is None or not old.valid_at(act.at):
            raise InvalidField("there is no such key that still works", param="key")
        secret, made = mint(
            old.tenant,
            pepper=self._control.secrets.pepper,
            now=act.at,
            role=old.role,
            models=old.models,
            expires_at=old.expires_at,
        )
        new = replace(made, plan=old.plan)
        await self._store.rotate_key(key, new, act.at + body.overlap_s, replace(act, detail=f"successor {new.id}"))
        return answer(KeyMade(**key_fields(new), secret=secret), 201)

    async def _act(self, request: Request, what: str, key: KeyId) -> Act:
        """Return the act; a key of a tenant that the caller doesn't see is one that there isn't."""
        caller = await self._control.manager(request)
        known = await self._store.key(key)
        if known is None or not caller.sees(known.tenant):
            raise InvalidField("there is no such key", param="key")
        return self._control.act_of(caller, what, key, tenant=known.tenant)


def _check_seconds(value: float, param: str) -> None:
    if not math.isfinite(value) or value < 0:
        raise InvalidField("seconds are zero or more", param=param)
