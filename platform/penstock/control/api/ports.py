"""Stores of the operators' API beside the registry: tenants and keys, table history, jobs, the audit log."""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.domain.fleet.table import RoutingTable
from penstock.domain.ids import KeyId, OrgId, TenantId
from penstock.domain.jobs.job import EnqueueLimits, Job, JobFilter, Unended
from penstock.domain.tenancy.audit import ALL, Act, Selection
from penstock.domain.tenancy.tenant import ApiKey, Org, Plan, ScopeId, Tenant
from penstock.filters.book import StoredPack
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Events, Intervention, RuleCount
from penstock.filters.pack import Pack


class TenancyStore(Protocol):
    """A change and its audit row are written in one transaction."""

    async def tenants(self) -> tuple[Tenant, ...]: ...

    async def add_tenant(self, tenant: Tenant, act: Act) -> None:
        """Store a tenant; raise ``Conflict`` if the id is taken or the organisation does not exist."""
        ...

    async def move_tenant(self, tenant: TenantId, org: OrgId, act: Act) -> Tenant | None:
        """Move a tenant; None if there is no such tenant. Raise ``Conflict`` if there is no such organisation."""
        ...

    async def orgs(self) -> tuple[Org, ...]:
        """Return organisations by id; the default one always exists."""
        ...

    async def add_org(self, org: Org, act: Act) -> None:
        """Raises ``Conflict`` if the id is taken."""
        ...

    async def change_plan(self, whose: ScopeId, change: Callable[[Plan], Plan], act: Act) -> Plan | None:
        """Change a plan under a lock; None if there is no such scope. If ``change`` raises, the plan stays."""
        ...

    async def keys(self) -> tuple[ApiKey, ...]: ...

    async def key(self, key_id: KeyId) -> ApiKey | None: ...

    async def add_key(self, key: ApiKey, act: Act) -> None:
        """Raises ``Conflict`` if its tenant does not exist."""
        ...

    async def revoke_key(self, key_id: KeyId, act: Act) -> bool: ...

    async def rotate_key(self, old: KeyId, new: ApiKey, old_expires_at: float, act: Act) -> None:
        """End the old key at ``old_expires_at`` at the latest.

        Raise ``Conflict`` if the key is revoked or has a successor already, which is named.
        """
        ...


class PackStore(Protocol):
    """Safety packs and what they did; a change and its audit row are written in one transaction."""

    async def packs(self) -> tuple[StoredPack, ...]:
        """Return all versions by id, newest first."""
        ...

    async def floor(self) -> tuple[str, ...]: ...

    async def push(self, pack: Pack, act: Act) -> None:
        """Store a version and make it current; raise ``Conflict`` if it exists with other content."""
        ...

    async def choose(self, pack: str, version: int | None, act: Act) -> bool:
        """Make a stored version current, None for the one below the present; False if there is none."""
        ...

    async def put_floor(self, packs: Sequence[str], act: Act) -> None: ...

    async def events(self, of: Events, limit: int) -> tuple[Intervention, ...]: ...

    async def texts(self, of: Events, limit: int) -> tuple[tuple[Intervention, SealedText], ...]:
        """Return those of which the text is kept, newest first."""
        ...

    async def counts(self, of: Events) -> tuple[RuleCount, ...]: ...

    async def served(self, of: Events) -> dict[TenantId, int]: ...


class TableHistory(Protocol):
    async def latest(self) -> RoutingTable: ...

    async def publish(self, table: RoutingTable) -> None:
        """Raises ``Conflict`` if its number is not the newest."""
        ...

    async def numbered(self, number: int) -> RoutingTable | None: ...

    async def history(self, limit: int) -> tuple[RoutingTable, ...]: ...


class DeferredWork(Protocol):
    """Jobs of all tenants: their pause, those that failed at each attempt, and what tenants keep."""

    async def kept(self, tenant: TenantId, now: float) -> int: ...

    async def page(self, tenant: TenantId | None, which: JobFilter, now: float, *, limit: int) -> tuple[Job, ...]: ...

    async def replay_all(self, tenant: TenantId | None, which: JobFilter, now: float, limits: EnqueueLimits) -> int: ...

    async def pause(self, scope: str, now: float) -> None: ...

    async def resume(self, scope: str) -> None: ...

    async def paused(self) -> frozenset[str]: ...

    async def unended(self) -> Unended: ...


class AuditLog(Protocol):
    async def note(self, act: Act) -> None:
        """Write an audit row for an act that changes nothing else."""
        ...

    async def note_threshold(self, act: Act) -> bool:
        """Write a ``budget.threshold`` row unless its target has one; return whether this call wrote it."""
        ...

    async def newest(self, limit: int, *, tenant: TenantId | None = None, of: Selection = ALL) -> tuple[Act, ...]:
        """Newest acts first, of all tenants or of one."""
        ...
