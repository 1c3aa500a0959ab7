"""Organisations, tenants and their plans: operators change them, a tenant sees its own."""

import re
from dataclasses import dataclass, replace

from fastapi import APIRouter

from penstock.control.api import plans
from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import Membership, NewOrg, NewTenant, PlanChange
from penstock.control.api.deps import Control, Controlled, Operator, Reader
from penstock.control.api.safety import check_packs
from penstock.control.api.wire import Sent
from penstock.domain.errors import InvalidField
from penstock.domain.ids import Alias, OrgId, TenantId
from penstock.domain.tenancy.tenant import Org, Plan, ScopeId, ScopeKind, Tenant
from penstock.filters.book import names

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
orgs = APIRouter(prefix="/orgs", tags=["orgs"], route_class=ActRoute)
router = APIRouter(prefix="/tenants", tags=["tenants"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgList:
    """Organisations."""

    orgs: tuple[Org, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantShown(Tenant):
    """``kept_bytes``: files, jobs, batch lines and stored responses with their rows."""

    kept_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantList:
    """The tenants that the key may see."""

    tenants: tuple[Tenant, ...]


@orgs.post("", status_code=201)
async def create_org(control: Controlled, caller: Operator, body: Sent[NewOrg]) -> Org:
    """Create an organisation."""
    act = control.act(caller, "org.create")
    org_id = OrgId(_checked_id(body.id, "an organisation's"))
    org = Org(id=org_id, name=body.name or body.id, plan=plans.checked(body.plan, ScopeKind.ORG))
    await control.tenancy.add_org(org, replace(act, target=org.id))
    return org


@orgs.get("")
async def org_list(control: Controlled, _: Operator) -> OrgList:
    """List organisations."""
    return OrgList(orgs=await control.tenancy.orgs())


@orgs.patch("/{org}/plan")
async def change_org(control: Controlled, caller: Operator, org: OrgId, body: Sent[PlanChange]) -> Plan:
    """Change an organisation's bounds; a bound left out stays."""
    act = control.act(caller, "org.plan")
    return await plans.change(control.tenancy, ScopeId(kind=ScopeKind.ORG, id=org), body, act)


@router.post("", status_code=201)
async def create(control: Controlled, caller: Operator, body: Sent[NewTenant]) -> Tenant:
    """Create a tenant."""
    act = control.act(caller, "tenant.create")
    tenant = Tenant(
        id=TenantId(_checked_id(body.id, "a tenant's")),
        name=body.name or body.id,
        plan=plans.checked(body.plan, ScopeKind.TENANT),
        org=body.org,
    )
    await _check_smaller(control, tenant.plan.degrade_model, "plan.degrade_model")
    await check_packs(control.packs, names(tenant.plan.safety), "plan.safety")
    await _check_org(control, tenant.org)
    noted = replace(act, target=tenant.id, detail=f"of {tenant.org}", tenant=tenant.id)
    await control.tenancy.add_tenant(tenant, noted)
    return tenant


@router.get("")
async def tenants(control: Controlled, caller: Reader) -> TenantList:
    """List tenants: all to operators, its own to any other key."""
    return TenantList(tenants=tuple(one for one in await control.tenancy.tenants() if caller.sees(one.id)))


@router.get("/{tenant}")
async def tenant(control: Controlled, caller: Reader, tenant: TenantId) -> TenantShown:
    """Show a tenant, with what it keeps now of the plan's ``file_bytes``."""
    caller.check_tenant(tenant)
    found = await control.tenant(tenant)
    kept = await control.jobs.kept(tenant, control.clock.now())
    return TenantShown(id=found.id, name=found.name, plan=found.plan, org=found.org, kept_bytes=kept)


@router.patch("/{tenant}/plan")
async def change(control: Controlled, caller: Operator, tenant: TenantId, body: Sent[PlanChange]) -> Plan:
    """Change a tenant's plan; fields left out stay. Gateways apply it within a second."""
    act = control.act(caller, "tenant.plan", tenant=tenant)
    if "degrade_model" in body.named:
        await _check_smaller(control, body.degrade_model, "degrade_model")
    if "safety" in body.named:
        await check_packs(control.packs, names(body.safety), "safety")
    return await plans.change(control.tenancy, ScopeId(kind=ScopeKind.TENANT, id=tenant), body, act)


@router.put("/{tenant}/org")
async def move(control: Controlled, caller: Operator, tenant: TenantId, body: Sent[Membership]) -> Tenant:
    """Move a tenant to another organisation.

    The new organisation's bounds apply at once, and the tenant's spend of the present day and month counts for its
    budgets. The former organisation's meters keep their counts until their windows end.
    """
    act, org = control.act(caller, "tenant.move", tenant=tenant), body.org
    known = await control.tenant(tenant)
    await _check_org(control, org)
    noted = replace(act, target=tenant, detail=f"from {known.org} to {org}")
    return await control.tenancy.move_tenant(tenant, org, noted) or known


def _checked_id(text: str, whose: str) -> str:
    """Raise ``InvalidField`` for an id that can't be part of a meter's name."""
    if not _ID.fullmatch(text):
        raise InvalidField(f"{whose} id has 1 to 63 of a-z, 0-9, '_' and '-'", param="id")
    return text


async def _check_org(control: Control, org: OrgId) -> None:
    if org not in {one.id for one in await control.tenancy.orgs()}:
        raise InvalidField(f"there is no organisation {org}", param="org")


async def _check_smaller(control: Control, alias: Alias, param: str) -> None:
    """Raise ``InvalidField`` if the degrade model's alias does not exist, which would otherwise show only under
    pressure.
    """
    if not alias:
        return
    aliases = sorted(route.alias for route in await control.registry.store.routes())
    if alias not in aliases:
        raise InvalidField(f"there is no alias {alias}; there are: {', '.join(aliases) or 'none'}", param=param)
