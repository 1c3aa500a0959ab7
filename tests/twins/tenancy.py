"""Organisations, tenants and API keys (hashes only), in memory. Twin of `connectors.postgres.tenancy`."""

from collections.abc import Callable
from dataclasses import replace

from penstock.domain.errors import Conflict
from penstock.domain.ids import KeyId, OrgId, TenantId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.tenant import DEFAULT_ORG, ApiKey, Org, Plan, ScopeId, ScopeKind, Tenant
from tests.twins.audit import MemoryAudit


class MemoryTenancy:
    """Tenants by id, keys by id."""

    def __init__(self, audit: MemoryAudit) -> None:
        self._audit = audit
        self._tenants: dict[TenantId, Tenant] = {}
        self._keys: dict[KeyId, ApiKey] = {}
        self._successors: dict[KeyId, KeyId] = {}
        self._orgs: dict[OrgId, Org] = {DEFAULT_ORG: Org(id=DEFAULT_ORG, name="Default")}

    async def tenants(self) -> tuple[Tenant, ...]:
        """Return every tenant, by id."""
        return tuple(tenant for _, tenant in sorted(self._tenants.items()))

    async def add_tenant(self, tenant: Tenant, act: Act) -> None:
        """Store a new tenant; ``Conflict`` where the id is taken, or where there is no such organisation."""
        if tenant.id in self._tenants:
            raise Conflict("this tenant exists already")
        if tenant.org not in self._orgs:
            raise Conflict("there is no such organisation")
        self._tenants[tenant.id] = tenant
        await self._audit.note(act)

    async def move_tenant(self, tenant: TenantId, org: OrgId, act: Act) -> Tenant | None:
        if tenant not in self._tenants:
            return None
        if org not in self._orgs:
            raise Conflict("there is no such organisation")
        moved = self._tenants[tenant] = replace(self._tenants[tenant], org=org)
        await self._audit.note(act)
        return moved

    async def orgs(self) -> tuple[Org, ...]:
        """Return every organisation, by id."""
        return tuple(org for _, org in sorted(self._orgs.items()))

    async def add_org(self, org: Org, act: Act) -> None:
        """Store a new organisation; ``Conflict`` where the id is taken."""
        if org.id in self._orgs:
            raise Conflict("this organisation exists already")
        self._orgs[org.id] = org
        await self._audit.note(act)

    async def change_plan(self, whose: ScopeId, change: Callable[[Plan], Plan], act: Act) -> Plan | None:
        """Change a plan and return it, None where nobody has that name."""
        kind, key, tenant, org = whose.kind, KeyId(whose.id), TenantId(whose.id), OrgId(whose.id)
        if kind is ScopeKind.KEY and key in self._keys:
            plan = change(self._keys[key].plan)
            self._keys[key] = replace(self._keys[key], plan=plan)
        elif kind is ScopeKind.TENANT and tenant in self._tenants:
            plan = change(self._tenants[tenant].plan)
            self._tenants[tenant] = replace(self._tenants[tenant], plan=plan)
        elif kind is ScopeKind.ORG and org in self._orgs:
            plan = change(self._orgs[org].plan)
            self._orgs[org] = replace(self._orgs[org], plan=plan)
        else:
            return None
        await self._audit.note(act)
        return plan

    async def keys(self) -> tuple[ApiKey, ...]:
        """Return every key, oldest first."""
        return tuple(sorted(self._keys.values(), key=lambda key: (key.created_at, key.id)))

    async def key(self, key_id: KeyId) -> ApiKey | None:
        """Return one key."""
        return self._keys.get(key_id)

    async def add_key(self, key: ApiKey, act: Act) -> None:
        """Store a new key; ``Conflict`` where its tenant does not exist."""
        if key.tenant not in self._tenants or key.id in self._keys:
            raise Conflict("there is no such tenant, or there is such a key")
        self._keys[key.id] = key
        await self._audit.note(act)

    async def revoke_key(self, key_id: KeyId, act: Act) -> bool:
        """Revoke a key as of the act's time; False where there is no valid key with this id."""
        key = self._keys.get(key_id)
        if key is None or key.revoked_at:
            return False
        self._keys[key_id] = replace(key, revoked_at=act.at)
        await self._audit.note(act)
        return True

    async def rotate_key(self, old: KeyId, new: ApiKey, old_expires_at: float, act: Act) -> None:
        key = self._keys.get(old)
        if key is None or key.revoked_at:
            raise Conflict("only a key that still works can be rotated")
        if old in self._successors:
            raise Conflict(f"its successor is {self._successors[old]}: rotate that one")
        await self.add_key(new, act)
        self._successors[old] = new.id
        ends_at = min(key.expires_at, old_expires_at) if key.expires_at else old_expires_at
        self._keys[old] = replace(key, expires_at=ends_at)
