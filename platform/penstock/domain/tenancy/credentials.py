"""The only check of an API key, for gateways and the operators' API. Pure.

The secret's hash is compared in constant time. Refusals give no detail until the secret is proven; then its holder
learns that the key has ended.
"""

from typing import NamedTuple

from penstock.domain.errors import Unauthenticated
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.tenancy.keys import is_hash_of, is_well_formed, key_id_of
from penstock.domain.tenancy.tenant import ApiKey, Role

ASKS = frozenset({Role.INFER, Role.ADMIN})
"""Roles that may ask models."""
READS = frozenset({Role.ADMIN, Role.AUDITOR})
"""Roles that may read usage, keys, budgets and the audit log."""
MANAGES = frozenset({Role.ADMIN})
"""Roles that may change something."""


class Claim(NamedTuple):
    tenant: TenantId = TenantId("")
    key: KeyId = KeyId("")


NOBODY = Claim()


def claimed(credential: str) -> KeyId:
    key = key_id_of(credential)
    return key if key is not None and key.isalnum() and is_well_formed(credential) else KeyId("")


def named(credential: str) -> KeyId:
    key = key_id_of(credential)
    if key is None:
        raise Unauthenticated(None if credential else "an API key is required")
    return key


def verify(key: ApiKey | None, credential: str, peppers: tuple[bytes, ...], now: float) -> ApiKey:
    """Raises ``Unauthenticated``; ``now`` is Unix time, the newest of ``peppers`` is first."""
    if key is None or not is_hash_of(key.secret_hash, credential, peppers):
        raise Unauthenticated
    if not key.valid_at(now):
        raise Unauthenticated("this API key was revoked or has expired")
    return key
