"""Operators: tenants and their API keys. A key's secret leaves this process once, in the answer that made it."""

import math
import re
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from penstock.control.api.bodies import KeyMade, KeyShown, NewKey, NewTenant, Rotation, key_fields
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.domain.audit import Act
from penstock.domain.errors import InvalidField
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.keys import mint
from penstock.domain.tenant import Tenant

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Tenants:
    """Who may call."""

    def __init__(self, control: Control) -> None:
        """Take the rooms."""
        self._control = control
        self._store = control.tenancy

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["tenants"])
        router.add_api_route("/tenants", self.create, methods=["POST"], status_code=201)
        router.add_api_route("/tenants", self.tenants, methods=["GET"])
        router.add_api_route("/keys", self.mint, methods=["POST"], status_code=201)
        router.add_api_route("/keys", self.keys, methods=["GET"])
        router.add_api_route("/keys/{key}/revoke", self.revoke, methods=["POST"])
        router.add_api_route("/keys/{key}/rotate", self.rotate, methods=["POST"], status_code=201)
        return router

    async def create(self, request: Request) -> Response:
        """Make a tenant."""
        act = await self._control.act(request, "tenant.create")
        body = await read(request, NewTenant)
        if not _ID.fullmatch(body.id):
            raise InvalidField("a tenant's id has 1 to 63 of a-z, 0-9, '_' and '-'", param="id")
        if body.plan.weight < 1:
            raise InvalidField("a weight is at least 1", param="plan.weight")
        tenant = Tenant(id=TenantId(body.id), name=body.name or body.id, plan=body.plan)
        await self._store.add_tenant(tenant, _aimed(act, tenant.id))
        return answer(tenant, 201)

    async def tenants(self, request: Request) -> Response:
        """List tenants."""
        await self._control.operator(request)
        return answer({"tenants": await self._store.tenants()})

    async def mint(self, request: Request) -> Response:
        """Make a key and show it, this one time."""
        act = await self._control.act(request, "key.mint")
        body = await read(request, NewKey)
        _check_seconds(body.expires_in_s, "expires_in_s")
        if body.tenant not in {tenant.id for tenant in await self._store.tenants()}:
            raise InvalidField(f"there is no tenant {body.tenant}", param="tenant")
        secret, key = mint(
            body.tenant,
            pepper=self._control.secrets.pepper,
            now=act.at,
            role=body.role,
            models=body.models,
            expires_at=act.at + body.expires_in_s if body.expires_in_s else 0.0,
        )
        await self._store.add_key(key, _aimed(act, key.id, f"{key.role} key of {key.tenant}"))
        return answer(KeyMade(**key_fields(key), secret=secret), 201)

    async def keys(self, request: Request) -> Response:
        """List keys without their hashes."""
        await self._control.operator(request)
        return answer({"keys": [KeyShown(**key_fields(key)) for key in await self._store.keys()]})

    async def revoke(self, request: Request, key: KeyId) -> Response:
        """Make a key worthless within seconds."""
        act = await self._control.act(request, "key.revoke", key)
        if not await self._store.revoke_key(key, act):
            raise InvalidField("there is no such key that still works", param="key")
        return answer({"id": key, "revoked_at": act.at})

    async def rotate(self, request: Request, key: KeyId) -> Response:
        """Make a key's successor; the old one works on for the overlap, at most."""
        act = await self._control.act(request, "key.rotate", key)
        body = await read(request, Rotation)
        _check_seconds(body.overlap_s, "overlap_s")
        old = await self._store.key(key)
        if old is None or not old.valid_at(act.at):
            raise InvalidField("there is no such key that still works", param="key")
        secret, new = mint(
            old.tenant,
            pepper=self._control.secrets.pepper,
            now=act.at,
            role=old.role,
            models=old.models,
            expires_at=old.expires_at,
        )
        await self._store.rotate_key(key, new, act.at + body.overlap_s, _aimed(act, key, f"successor {new.id}"))
        return answer(KeyMade(**key_fields(new), secret=secret), 201)


def _aimed(act: Act, target: str, detail: str = "") -> Act:
    return replace(act, target=target, detail=detail)


def _check_seconds(value: float, param: str) -> None:
    if not math.isfinite(value) or value < 0:
        raise InvalidField("seconds are zero or more", param=param)
