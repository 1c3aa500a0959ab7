"""Operators: tenants and their plans."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from penstock.control.api import plans
from penstock.control.api.bodies import NewTenant, PlanChange
from penstock.control.api.deps import Control
from penstock.control.api.orgs import checked_id
from penstock.control.api.wire import answer, read
from penstock.domain.errors import InvalidField
from penstock.domain.ids import TenantId
from penstock.domain.tenant import ScopeId, ScopeKind, Tenant


class Tenants:
    """Whose keys, limits and prefix caches there are."""

    def __init__(self, control: Control) -> None:
        """Take the rooms."""
        self._control = control
        self._store = control.tenancy

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["tenants"])
        router.add_api_route("/tenants", self.create, methods=["POST"], status_code=201)
        router.add_api_route("/tenants", self.tenants, methods=["GET"])
        router.add_api_route("/tenants/{tenant}", self.tenant, methods=["GET"])
        router.add_api_route("/tenants/{tenant}/plan", self.change, methods=["PATCH"])
        return router

    async def create(self, request: Request) -> Response:
        """Make a tenant."""
        act = await self._control.act(request, "tenant.create")
        body = await read(request, NewTenant)
        tenant = Tenant(
            id=TenantId(checked_id(body.id, "a tenant's")),
            name=body.name or body.id,
            plan=plans.checked(body.plan, ScopeKind.TENANT),
            org=body.org,
        )
        if tenant.org not in {org.id for org in await self._store.orgs()}:
            raise InvalidField(f"there is no organisation {tenant.org}", param="org")
        await self._store.add_tenant(tenant, replace(act, target=tenant.id, detail=f"of {tenant.org}"))
        return answer(tenant, 201)

    async def tenants(self, request: Request) -> Response:
        """List tenants."""
        await self._control.operator(request)
        return answer({"tenants": await self._store.tenants()})

    async def tenant(self, request: Request, tenant: TenantId) -> Response:
        """Show one tenant."""
        await self._control.operator(request)
        found = next((one for one in await self._store.tenants() if one.id == tenant), None)
        if found is None:
            raise InvalidField(f"there is no tenant {tenant}", param="tenant")
        return answer(found)

    async def change(self, request: Request, tenant: TenantId) -> Response:
        """Change a tenant's plan; what is not named stays. Gateways have it within a second."""
        act = await self._control.act(request, "tenant.plan")
        change = await read(request, PlanChange)
        return answer(await plans.change(self._store, ScopeId(kind=ScopeKind.TENANT, id=tenant), change, act))
