"""Tenants' keys without a database: fixed secrets, of which the first seals and all of them open."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.sealing.administration import KeyCount
from penstock.sealing.keys import Context, StoredKey, Wrapped
from penstock.sealing.segments import KEY_ID_BYTES, KeyGone, TenantKey, key_id


class FixedKeys:
    """The same secrets for each tenant; objects in the former format open under all of them."""

    def __init__(self, *secrets: bytes) -> None:
        self.secrets = [*secrets] or [b"k" * 32]
        self.is_shredded = False

    async def newest(self, tenant: TenantId) -> TenantKey:
        return fixed(self.secrets[0])

    async def opening(self, tenant: TenantId, header: bytes) -> Sequence[bytes]:
        named = key_id(header)
        if self.is_shredded:
            raise KeyGone
        return [secret for secret in self.secrets if named in (None, fixed(secret).id)]


class KeysAway(FixedKeys):
    """Neither the KMS nor the database answers, and no key is kept."""

    async def newest(self, tenant: TenantId) -> TenantKey:
        raise StoreUnavailable("KMS can't be reached")

    async def opening(self, tenant: TenantId, header: bytes) -> Sequence[bytes]:
        raise StoreUnavailable("KMS can't be reached")


class MemoryKeyRows:
    """Rows of wrapped keys in memory, of one region."""

    def __init__(self) -> None:
        self.stored: dict[bytes, StoredKey] = {}

    async def counts(self, region: str) -> list[KeyCount]:
        found = Counter((one.wrapped.by, one.context.purpose) for one in self.stored.values())
        return [KeyCount(by, purpose, number, number) for (by, purpose), number in found.items()]

    async def wrapped_otherwise(self, region: str, by: str, limit: int) -> list[StoredKey]:
        return [one for one in self.stored.values() if one.wrapped.by != by][:limit]

    async def rewrap(self, key: StoredKey, wrapped: Wrapped) -> None:
        self.stored[key.id] = replace(key, wrapped=wrapped)

    async def newest(self, context: Context) -> StoredKey | None:
        return next((one for one in reversed(self.stored.values()) if one.context == context), None)

    async def find(self, tenant: TenantId, key: bytes) -> StoredKey | None:
        found = self.stored.get(key)
        return found if found is not None and found.context.tenant == tenant else None

    async def add(self, key: StoredKey) -> StoredKey:
        self.stored[key.id] = key
        return key

    async def append(self, key: StoredKey) -> None:
        self.stored[key.id] = key


def fixed(secret: bytes) -> TenantKey:
    return TenantKey(hashlib.sha256(secret).digest()[:KEY_ID_BYTES], secret)
