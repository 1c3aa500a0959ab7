"""Tenants and their plans: operators change them, a tenant sees its own."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response
from msgspec import UNSET

from penstock.control.api import plans
from penstock.control.api.bodies import Membership, NewTenant, PlanChange
from penstock.control.api.deps import Control
from penstock.control.api.orgs import checked_id
from penstock.control.api.wire import answer, read
from penstock.domain.errors import InvalidField
from penstock.domain.ids import Alias, TenantId
from penstock.domain.tenancy.tenant import ScopeId, ScopeKind, Tenant


class Tenants:
    """Whose keys, limits and prefix caches there are."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._store = control.tenancy

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["tenants"])
        router.add_api_route("/tenants", self.create, methods=["POST"], status_code=201)
        router.add_api_route("/tenants", self.tenants, methods=["GET"])
        router.add_api_route("/tenants/{tenant}", self.tenant, methods=["GET"])
        router.add_api_route("/tenants/{tenant}/plan", self.change, methods=["PATCH"])
        router.add_api_route("/tenants/{tenant}/org", self.move, methods=["PUT"])
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
        await self._check_smaller(tenant.plan.degrade_model, "plan.degrade_model")
        if tenant.org not in {org.id for org in await self._store.orgs()}:
            raise InvalidField(f"there is no organisation {tenant.org}", param="org")
        await self._store.add_tenant(
            tenant, replace(act, target=tenant.id, detail=f"of {tenant.org}", tenant=tenant.id)
        )
        return answer(tenant, 201)

    async def tenants(self, request: Request) -> Response:
        """List tenants: all to operators, its own to any other key."""
        caller = await self._control.reader(request)
        return answer({"tenants": [one for one in await self._store.tenants() if caller.sees(one.id)]})

    async def tenant(self, request: Request, tenant: TenantId) -> Response:
        """Show one tenant."""
        (await self._control.reader(request)).check_tenant(tenant)
        return answer(await self._known(tenant))

    async def change(self, request: Request, tenant: TenantId) -> Response:
        """Change a tenant's plan; what is not named stays. Gateways have it within a second."""
        act = await self._control.act(request, "tenant.plan", tenant=tenant)
        change = await read(request, PlanChange)
        if change.degrade_model is not UNSET:
            await self._check_smaller(change.degrade_model, "degrade_model")
        return answer(await plans.change(self._store, ScopeId(kind=ScopeKind.TENANT, id=tenant), change, act))

    async def move(self, request: Request, tenant: TenantId) -> Response:
        """Let a tenant belong to another organisation.

        From then on the new one's bounds hold, and what the tenant has spent in the present day and month counts for
        the new one's budgets. What the old one's meters have counted stays counted until their windows end.
        """
        act = await self._control.act(request, "tenant.move", tenant=tenant)
        org = (await read(request, Membership)).org
        known = await self._known(tenant)
        if org not in {one.id for one in await self._store.orgs()}:
            raise InvalidField(f"there is no organisation {org}", param="org")
        noted = replace(act, target=tenant, detail=f"from {known.org} to {org}")
        return answer(await self._store.move_tenant(tenant, org, noted) or known)

    async def _check_smaller(self, alias: Alias, param: str) -> None:
        """Raise ``InvalidField`` where there is no such alias: it would be found out under pressure only."""
        if not alias:
            return
        aliases = sorted(route.alias for route in await self._control.registry.routes())
        if alias not in aliases:
            raise InvalidField(f"there is no alias {alias}; there are: {', '.join(aliases) or 'none'}", param=param)

    async def _known(self, tenant: TenantId) -> Tenant:
        found = next((one for one in await self._store.tenants() if one.id == tenant), None)
        if found is None:
            raise InvalidField(f"there is no tenant {tenant}", param="tenant")
        return found
