"""Who calls: tenants, plans, keys, and the principal that a valid key yields."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import Alias, KeyId, TenantId
from penstock.domain.money import FREE, MicroUsd

PLATFORM = TenantId("_platform")
"""The platform itself: probes, warm-up and orders to a gate travel under this tenant, uncounted. No caller has it."""


class Priority(StrEnum):
    """Service classes, best first (B7)."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"


class Role(StrEnum):
    """What a key may do."""

    INFER = "infer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A tenant's promises and bounds. Zero means: no bound of this kind."""

    priority: Priority = Priority.STANDARD
    weight: int = 1
    max_output_tokens: int = 0
    max_concurrent: int = 0
    max_streams: int = 0
    requests_per_min: int = 0
    tokens_per_min: int = 0
    spend_per_day: MicroUsd = FREE
    spend_per_month: MicroUsd = FREE
    deadline_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One customer of the platform."""

    id: TenantId
    name: str
    plan: Plan = field(default_factory=Plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A stored key: its keyed hash, never the secret. Times are Unix seconds; zero means never.

    ``models`` empty means every model; ``secret_hash`` is hex HMAC-SHA-256 under the platform's pepper.
    """

    id: KeyId
    tenant: TenantId
    secret_hash: str
    role: Role = Role.INFER
    models: tuple[Alias, ...] = ()
    created_at: float = 0.0
    expires_at: float = 0.0
    revoked_at: float = 0.0

    def valid_at(self, now: float) -> bool:
        """Tell whether the key works at Unix time ``now``."""
        return not (self.revoked_at and now >= self.revoked_at) and not (self.expires_at and now >= self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """Every stored key and tenant at one moment: what a gateway needs to tell who calls."""

    keys: tuple[ApiKey, ...] = ()
    tenants: tuple[Tenant, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a request comes from; built from the credential only (A4)."""

    tenant: TenantId
    key: KeyId
    role: Role
    plan: Plan
    models: tuple[Alias, ...]
    cache_salt: str
    """HMAC of the tenant id: keeps prefix caches of tenants apart (E5)."""

    def may_use(self, model: str) -> bool:
        """Tell whether the key's scope holds this alias or version."""
        return not self.models or model in self.models
