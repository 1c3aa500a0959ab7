"""The operators' tenant and their first admin key, without which no one can call a new platform's API."""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import OPERATORS, ApiKey, Role, Tenant

PLATFORM = "platform"
"""The actor of a platform's own acts."""
TENANT = Tenant(id=OPERATORS, name="Operators of this platform")


class Tenancy(Protocol):
    async def tenants(self) -> Sequence[Tenant]: ...

    async def add_tenant(self, tenant: Tenant, act: Act) -> None: ...

    async def keys(self) -> Sequence[ApiKey]: ...

    async def add_key(self, key: ApiKey, act: Act) -> None: ...


async def let_in(tenancy: Tenancy, now: float, pepper: bytes, keep: Callable[[str], None]) -> bool:
    """Return True if a key was made.

    ``keep`` saves the secret first: a crash in between leaves a secret without a key.
    """
    if OPERATORS not in {tenant.id for tenant in await tenancy.tenants()}:
        await tenancy.add_tenant(
            TENANT, Act(who=PLATFORM, what="tenant.create", target=OPERATORS, at=now, tenant=OPERATORS)
        )
    known = [key for key in await tenancy.keys() if key.tenant == OPERATORS and key.role is Role.ADMIN]
    if any(key.valid_at(now) for key in known):
        return False
    secret, key = mint(OPERATORS, pepper=pepper, now=now, role=Role.ADMIN)
    keep(secret)
    await tenancy.add_key(
        key, Act(who=PLATFORM, what="key.create", target=key.id, at=now, detail="the first", tenant=OPERATORS)
    )
    return True
