"""Rotation: a new key of a tenant seals from then on; a new key-encryption key wraps all keys anew. Payloads stay.

Both run inside an administrative act. Other processes seal under a rotated tenant's key within ``keys.REFRESH_S``.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.domain.ids import TenantId
from penstock.sealing.keys import (
    Context,
    KeyPurpose,
    Keys,
    KeyStore,
    NamedEncryption,
    PurposeKeys,
    StoredKey,
    TenantKeys,
    Wrapped,
    made,
)

REWRAPPED_AT_ONCE = 50
"""Keys of one act: 4 s of a KMS, and other acts wait for 5."""


class KeyCount(NamedTuple):
    """Keys of one purpose under one key-encryption key."""

    wrapped_by: str
    purpose: str
    keys: int
    tenants: int


class KeyRows(KeyStore, Protocol):
    async def counts(self, region: str) -> Sequence[KeyCount]: ...

    async def wrapped_otherwise(self, region: str, by: str, limit: int) -> Sequence[StoredKey]: ...

    async def rewrap(self, key: StoredKey, wrapped: Wrapped) -> None: ...

    async def append(self, key: StoredKey) -> None: ...


class KeyAdministration:
    def __init__(self, rows: KeyRows, encryption: NamedEncryption, region: str) -> None:
        self._rows, self._encryption, self._region = rows, encryption, region

    async def counts(self) -> tuple[str, Sequence[KeyCount]]:
        """Return the present key-encryption key, and the keys under each."""
        return await self._encryption.current(), await self._rows.counts(self._region)

    def content(self) -> Keys:
        """Return the keys of what tenants have stored, none of which was read before: none that was shredded."""
        return PurposeKeys(
            TenantKeys(self._rows, self._encryption, lambda: 0.0, self._region), KeyPurpose.CONTENT, tuple
        )

    async def rotate(self, tenant: TenantId) -> None:
        for purpose in KeyPurpose:
            await self._rows.append(await made(self._encryption, Context(tenant, purpose, self._region)))

    async def rewrap(self) -> int:
        """Wrap some keys under the present key-encryption key; return their number, 0 once none is left.

        Raises ``StoreUnavailable`` or ``Unreadable`` if the former key-encryption key of one is not here.
        """
        current = await self._encryption.current()
        found = await self._rows.wrapped_otherwise(self._region, current, REWRAPPED_AT_ONCE)
        for key in found:
            secret = await self._encryption.unwrap(key.wrapped, key.context)
            await self._rows.rewrap(key, await self._encryption.wrap(secret, key.context))
        return len(found)
