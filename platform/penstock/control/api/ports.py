"""What the operators' API needs beside the registry: tenants and keys, table history, the audit log."""

from collections.abc import Callable
from typing import Protocol

from penstock.domain.fleet.table import RoutingTable
from penstock.domain.ids import KeyId, OrgId, TenantId
from penstock.domain.tenancy.audit import ALL, Act, Selection
from penstock.domain.tenancy.tenant import ApiKey, Org, Plan, ScopeId, Tenant


class TenancyStore(Protocol):
    """Tenants and keys; every change and its act are written together or not at all."""

    async def tenants(self) -> tuple[Tenant, ...]:
        """Every tenant, by id."""
        ...

    async def add_tenant(self, tenant: Tenant, act: Act) -> None:
        """Store a new one; ``Conflict`` where the id is taken, or where there is no such organisation."""
        ...

    async def move_tenant(self, tenant: TenantId, org: OrgId, act: Act) -> Tenant | None:
        """Let a tenant belong to another organisation; None where there is no such tenant, ``Conflict`` no such org."""
        ...

    async def orgs(self) -> tuple[Org, ...]:
        """Every organisation, by id; the default one is always there."""
        ...

    async def add_org(self, org: Org, act: Act) -> None:
        """Store a new one; ``Conflict`` where the id is taken."""
        ...

    async def change_plan(self, whose: ScopeId, change: Callable[[Plan], Plan], act: Act) -> Plan | None:
        """Change a plan under a lock and return it, None where nobody has that name; ``change`` may raise."""
        ...

    async def keys(self) -> tuple[ApiKey, ...]:
        """Every key, oldest first."""
        ...

    async def key(self, key_id: KeyId) -> ApiKey | None:
        """One key."""
        ...

    async def add_key(self, key: ApiKey, act: Act) -> None:
        """Store a new one; ``Conflict`` where its tenant does not exist."""
        ...

    async def revoke_key(self, key_id: KeyId, act: Act) -> bool:
        """Revoke as of the act's time; False where there is no such key that still works."""
        ...

    async def rotate_key(self, old: KeyId, new: ApiKey, old_expires_at: float, act: Act) -> None:
        """Store the successor and let the old key end at the given time at the latest."""
        ...


class TableHistory(Protocol):
    """Published routing tables."""

    async def latest(self) -> RoutingTable:
        """The newest, or the empty one."""
        ...

    async def publish(self, table: RoutingTable) -> None:
        """Store and push; ``Conflict`` where the number is not the newest."""
        ...

    async def numbered(self, number: int) -> RoutingTable | None:
        """A stored one."""
        ...

    async def history(self, limit: int) -> tuple[RoutingTable, ...]:
        """Stored ones, newest first."""
        ...


class AuditLog(Protocol):
    """Administrative acts."""

    async def note(self, act: Act) -> None:
        """Write an act that changes nothing else."""
        ...

    async def note_threshold(self, act: Act) -> bool:
        """Write a ``budget.threshold`` unless its target has one; True where this call wrote it."""
        ...

    async def newest(self, limit: int, *, tenant: TenantId | None = None, of: Selection = ALL) -> tuple[Act, ...]:
        """The newest of these, newest first: of all tenants, or of what concerns one."""
        ...
