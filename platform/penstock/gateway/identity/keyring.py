"""API key → principal, from memory: identifying a caller must cost microseconds and never wait for a store.

The snapshot is pushed and replaced whole; a revoked key is gone as soon as the next one is in. Expiry is checked at
each request, because no push announces it. What makes a credential good is in `domain/tenancy/credentials.py`.

A digest-keyed cache of accepted credentials would be faster still and would keep revoked keys alive: not worth 2 µs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.domain.errors import Forbidden
from penstock.domain.ids import KeyId, OrgId
from penstock.domain.tenancy import credentials
from penstock.domain.tenancy.keys import cache_salt
from penstock.domain.tenancy.tenant import ApiKey, KeyRing, Org, Plan, Principal, ScopeKind, Tenant, scope


class KeySource(Protocol):
    """Where snapshots come from: a store that pushes, or a file."""

    async def follow(self, on_change: Callable[[KeyRing], None]) -> None:
        """Call back with the ring of now and then each newer one; raise ``StoreUnavailable`` when cut off."""
        ...


@dataclass(frozen=True, slots=True)
class _Entry:
    key: ApiKey
    principal: Principal


class Keyring:
    """The keys in force; implements the APIs' ``Identity``."""

    def __init__(self, *, peppers: tuple[bytes, ...], salt_key: bytes, now: Callable[[], float]) -> None:
        """Take the keys for hashes (the newest first) and cache salts, and Unix time as a function."""
        self._peppers = peppers
        self._salt_key = salt_key
        self._now = now
        self._ring = KeyRing()
        self._entries: dict[KeyId, _Entry] = {}

    def __len__(self) -> int:
        """How many keys are known."""
        return len(self._entries)

    def exchange(self, *, peppers: tuple[bytes, ...], salt_key: bytes) -> None:
        """Put other keys for hashes and cache salts into force."""
        self._peppers, self._salt_key = peppers, salt_key
        self.replace(self._ring)

    def replace(self, ring: KeyRing) -> None:
        """Put these keys into force. Keys of unknown tenants are left out: no plan, no service."""
        self._ring = ring
        tenants = {tenant.id: tenant for tenant in ring.tenants}
        orgs = {org.id: org for org in ring.orgs}
        self._entries = {
            key.id: _Entry(key, self._principal(key, tenants[key.tenant], orgs))
            for key in ring.keys
            if key.tenant in tenants
        }

    def authenticate(self, credential: str) -> Principal:
        """Return the principal of a credential, or raise ``Unauthenticated``.

        A key that works and may not ask models is ``Forbidden``.
        """
        return self.asking(self.recognise(credential))

    def recognise(self, credential: str) -> Principal:
        entry = self._entries.get(credentials.named(credential))
        key = credentials.verify(entry.key if entry else None, credential, self._peppers, self._now())
        return self._entries[key.id].principal

    def asking(self, who: Principal) -> Principal:
        if who.role not in credentials.ASKS:
            raise Forbidden("an auditor's key reads usage and the audit log; it can't ask models")
        return who

    def is_valid(self, key: KeyId) -> bool:
        """Tell whether a key that was accepted before would be now."""
        entry = self._entries.get(key)
        return entry is not None and entry.key.valid_at(self._now())

    def _principal(self, key: ApiKey, tenant: Tenant, orgs: Mapping[OrgId, Org]) -> Principal:
        org = orgs.get(tenant.org) or Org(id=tenant.org, name="")  # a copy from before there were organisations
        scopes = (
            scope(ScopeKind.KEY, key.id, key.plan),
            scope(ScopeKind.TENANT, tenant.id, tenant.plan),
            scope(ScopeKind.ORG, org.id, org.plan),
        )
        return Principal(
            tenant=tenant.id,
            key=key.id,
            role=key.role,
            plan=_tightest(tenant.plan, key.plan, org.plan),
            models=key.models,
            cache_salt=cache_salt(tenant.id, self._salt_key),
            scopes=tuple(one for one in scopes if one.plan.draws),
        )


def _tightest(plan: Plan, *others: Plan) -> Plan:
    """Return the plan with the least deadline and output bound of all; zero is no bound."""
    outputs = [one.max_output_tokens for one in (plan, *others) if one.max_output_tokens]
    deadlines = [one.deadline_s for one in (plan, *others) if one.deadline_s]
    return replace(plan, max_output_tokens=min(outputs, default=0), deadline_s=min(deadlines, default=0.0))
