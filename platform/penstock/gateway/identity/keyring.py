"""API key → principal, from memory, within microseconds: no request waits for a store.

Snapshots of the keys are pushed, each replacing the previous one; a revoked key is missing in the next snapshot. Expiry
is checked per request, since no push announces it.

Trade-off: a cache by the key's digest would save 2 µs, but keep revoked keys valid.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.domain.errors import Forbidden
from penstock.domain.ids import KeyId, OrgId, TenantId
from penstock.domain.tenancy import credentials
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.keys import cache_salt
from penstock.domain.tenancy.tenant import ApiKey, KeyRing, Org, Plan, Principal, ScopeKind, Tenant, scope


class KeySource(Protocol):
    async def follow(self, on_change: Callable[[KeyRing], None]) -> None:
        """Call ``on_change`` with the present ring and each newer one; raises ``StoreUnavailable``."""
        ...


@dataclass(frozen=True, slots=True)
class _Entry:
    key: ApiKey
    principal: Principal


class Keyring:
    """The newest pepper is first; ``now`` is Unix time."""

    def __init__(self, *, peppers: tuple[bytes, ...], salt_key: bytes, now: Callable[[], float]) -> None:
        self._peppers = peppers
        self._salt_key = salt_key
        self._now = now
        self._ring = KeyRing()
        self._entries: dict[KeyId, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def exchange(self, *, peppers: tuple[bytes, ...], salt_key: bytes) -> None:
        self._peppers, self._salt_key = peppers, salt_key
        self.replace(self._ring)

    def replace(self, ring: KeyRing) -> None:
        """Keys of unknown tenants are dropped: they have no plan."""
        self._ring = ring
        tenants = {tenant.id: tenant for tenant in ring.tenants}
        orgs = {org.id: org for org in ring.orgs}
        self._entries = {
            key.id: _Entry(key, self._principal(key, tenants[key.tenant], orgs))
            for key in ring.keys
            if key.tenant in tenants
        }

    def authenticate(self, credential: str) -> Principal:
        return self.asking(self.recognise(credential))

    def recognise(self, credential: str) -> Principal:
        entry = self._entries.get(credentials.named(credential))
        key = credentials.verify(entry.key if entry else None, credential, self._peppers, self._now())
        return self._entries[key.id].principal

    def asking(self, who: Principal) -> Principal:
        if who.role not in credentials.ASKS:
            raise Forbidden("an auditor's key reads usage and the audit log; it can't ask models")
        return who

    def claimed(self, credential: str) -> Claim:
        key = credentials.claimed(credential)
        entry = self._entries.get(key)
        return Claim(entry.key.tenant if entry is not None else TenantId(""), key)

    def is_valid(self, key: KeyId) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.key.valid_at(self._now())

    def holder(self, key: KeyId) -> Principal | None:
        """Return the principal, even of an expired key; None if revoked or unknown."""
        entry = self._entries.get(key)
        return entry.principal if entry is not None and not entry.key.revoked_at else None

    @property
    def ring(self) -> KeyRing:
        return self._ring

    def _principal(self, key: ApiKey, tenant: Tenant, orgs: Mapping[OrgId, Org]) -> Principal:
        org = orgs.get(tenant.org) or Org(id=tenant.org, name="")  # a copy from before there were organisations
        scopes = (
            scope(ScopeKind.KEY, key.id, key.plan),
            scope(ScopeKind.TENANT, tenant.id, tenant.plan),
            scope(ScopeKind.ORG, org.id, org.plan),
        )
        plans = {ScopeKind.KEY: key.plan, ScopeKind.TENANT: tenant.plan, ScopeKind.ORG: org.plan}
        return Principal(
            tenant=tenant.id,
            key=key.id,
            role=key.role,
            plan=_tightest(tenant.plan, key.plan, org.plan),
            models=key.models,
            cache_salt=cache_salt(tenant.id, self._salt_key),
            scopes=tuple(one for one in scopes if one.plan.draws),
            context_of=min(ScopeKind, key=lambda kind: plans[kind].max_context_tokens or math.inf),
        )


def _tightest(plan: Plan, *others: Plan) -> Plan:
    """The smallest deadline, context and output bound; zero is no bound."""
    contexts = [one.max_context_tokens for one in (plan, *others) if one.max_context_tokens]
    outputs = [one.max_output_tokens for one in (plan, *others) if one.max_output_tokens]
    deadlines = [one.deadline_s for one in (plan, *others) if one.deadline_s]
    return replace(
        plan,
        max_context_tokens=min(contexts, default=0),
        max_output_tokens=min(outputs, default=0),
        deadline_s=min(deadlines, default=0.0),
    )
