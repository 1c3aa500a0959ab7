"""Tenants' keys: made at the first seal, stored wrapped by a key-encryption key, kept unwrapped for minutes.

A store asks ``Keys`` for the key of what it seals or opens; no object costs a call to the database or the KMS. While
either is away, kept keys serve for the rest of ``KEEP_S``; then sealing and opening raise ``StoreUnavailable``.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.sealing.segments import KEY_ID_BYTES, KeyGone, TenantKey, Unreadable, key_id

KEEP_S = 900.0
"""Seconds that an unwrapped key serves without having been read anew: an outage of the KMS of so long is unseen."""
REFRESH_S = 300.0
"""Seconds after which a used key is read anew, beside the use: ten minutes are left if that fails."""
RETRY_S = 1.0
"""Seconds between two tries to read a key: those between fail as the last one did."""
MOST_KEPT = 20_000
"""Keys kept by one process: 10 MB."""
SECRET_BYTES = 32


class KeyPurpose(StrEnum):
    """What a key seals; each has keys of its own, so that one may be shredded without the other."""

    CONTENT = "content"
    WEBHOOKS = "webhooks"


class Context(NamedTuple):
    """The encryption context: a wrapped key unwraps under its own alone."""

    tenant: TenantId
    purpose: KeyPurpose
    region: str

    def __bytes__(self) -> bytes:
        return "\x1f".join(self).encode()


class Wrapped(NamedTuple):
    by: str
    """The key-encryption key: ``local/<mark>``, or the address of a KMS key."""
    secret: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    id: bytes
    context: Context
    wrapped: Wrapped


class KeyStore(Protocol):
    async def newest(self, context: Context) -> StoredKey | None: ...

    async def find(self, tenant: TenantId, key: bytes) -> StoredKey | None:
        """Return None if it may have been shredded; raise ``Unreadable`` if no key of the tenant ever was."""
        ...

    async def add(self, key: StoredKey) -> StoredKey:
        """Store the first key of its context, or return the one that another process stored first."""
        ...


class KeyEncryption(Protocol):
    """A key-encryption key. Both raise ``StoreUnavailable`` if it can't be used now."""

    async def wrap(self, secret: bytes, context: Context) -> Wrapped: ...

    async def unwrap(self, wrapped: Wrapped, context: Context) -> bytes:
        """Raises ``Unreadable`` for another context or another key."""
        ...


class NamedEncryption(KeyEncryption, Protocol):
    async def current(self) -> str:
        """Return what ``Wrapped.by`` says of keys wrapped now."""
        ...


class Keys(Protocol):
    """The keys of one kind of stored things."""

    async def newest(self, tenant: TenantId) -> TenantKey: ...

    async def opening(self, tenant: TenantId, header: bytes) -> Sequence[bytes]:
        """Return the secrets that an object with this header may be sealed under. Raises ``Unreadable``, or ``KeyGone``
        if its key was shredded.
        """
        ...


async def made(encryption: KeyEncryption, context: Context) -> StoredKey:
    """Return a new wrapped key, which is not stored yet."""
    wrapped = await encryption.wrap(secrets.token_bytes(SECRET_BYTES), context)
    return StoredKey(id=secrets.token_bytes(KEY_ID_BYTES), context=context, wrapped=wrapped)


class _KeyName(NamedTuple):
    tenant: TenantId
    purpose: KeyPurpose
    key: bytes = b""
    """Empty for the newest."""


class _CachedKey(NamedTuple):
    key: TenantKey
    at: float


class TenantKeys:
    """The keys of all tenants in one process. ``monotonic`` returns seconds."""

    def __init__(
        self, store: KeyStore, encryption: KeyEncryption, monotonic: Callable[[], float], region: str = ""
    ) -> None:
        self._store, self._encryption, self._monotonic, self._region = store, encryption, monotonic, region
        self._kept: dict[_KeyName, _CachedKey] = {}
        self._failed: dict[_KeyName, tuple[float, StoreUnavailable]] = {}
        self._loading: dict[_KeyName, asyncio.Task[TenantKey]] = {}

    async def newest(self, tenant: TenantId, purpose: KeyPurpose) -> TenantKey:
        return await self._get(_KeyName(tenant, purpose))

    async def find(self, tenant: TenantId, purpose: KeyPurpose, key: bytes) -> TenantKey:
        """Raises ``KeyGone`` if the tenant has no such key."""
        return await self._get(_KeyName(tenant, purpose, key))

    @property
    def kept(self) -> frozenset[bytes]:
        return frozenset(one.key.id for one in self._kept.values())

    def forget(self, tenant: str) -> None:
        """Drop the tenant's keys: they were rotated or shredded."""
        for wanted in [one for one in self._kept if one.tenant == tenant]:
            del self._kept[wanted]
        for wanted in [one for one in self._loading if one.tenant == tenant]:
            del self._loading[wanted]

    def keep_only(self, asked: Collection[bytes], left: Collection[bytes]) -> None:
        """Drop those of the ``asked`` keys that are not ``left``."""
        gone = set(asked) - set(left)
        for wanted in [wanted for wanted, kept in self._kept.items() if kept.key.id in gone]:
            del self._kept[wanted]

    async def _get(self, wanted: _KeyName) -> TenantKey:
        kept, now = self._kept.get(wanted), self._monotonic()
        if kept is not None and now - kept.at < REFRESH_S:
            return kept.key
        failed_at, error = self._failed.get(wanted, (-RETRY_S, None))
        may_load = error is None or now - failed_at >= RETRY_S
        loading = self._loading.get(wanted) or (self._load(wanted) if may_load else None)
        if kept is not None and now - kept.at < KEEP_S:
            return kept.key
        if loading is None:
            raise StoreUnavailable(error.message if error else None, retry_after_s=RETRY_S)
        return await asyncio.shield(loading)

    def _load(self, wanted: _KeyName) -> "asyncio.Task[TenantKey]":
        task = asyncio.get_running_loop().create_task(self._read(wanted))
        self._loading[wanted] = task
        task.add_done_callback(lambda done: self._note(wanted, done))
        return task

    def _note(self, wanted: _KeyName, done: "asyncio.Task[TenantKey]") -> None:
        error = None if done.cancelled() else done.exception()
        if self._loading.get(wanted) is not done:
            return  # forgotten meanwhile: what it read may be gone
        del self._loading[wanted]
        now = self._monotonic()
        if isinstance(error, StoreUnavailable):
            self._failed[wanted] = (now, error)
            return
        self._failed.pop(wanted, None)
        self._kept.pop(wanted, None)
        if error is None and not done.cancelled():
            key = done.result()
            self._kept[wanted] = self._kept[wanted._replace(key=key.id)] = _CachedKey(key, now)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    async def _read(self, wanted: _KeyName) -> TenantKey:
        context = Context(wanted.tenant, wanted.purpose, self._region)
        if wanted.key:
            found = await self._store.find(wanted.tenant, wanted.key)
            if found is None:
                raise KeyGone
            if found.context.purpose is not wanted.purpose:
                raise Unreadable
            return TenantKey(found.id, await self._encryption.unwrap(found.wrapped, found.context))
        found = await self._store.newest(context) or await self._store.add(await made(self._encryption, context))
        try:
            return TenantKey(found.id, await self._encryption.unwrap(found.wrapped, found.context))
        except Unreadable as error:
            raise StoreUnavailable("the key of stored data is wrapped by another key, or was altered") from error


class PurposeKeys:
    """``Keys`` for one purpose; ``former`` returns the keys of objects in the former format."""

    def __init__(self, keys: TenantKeys, purpose: KeyPurpose, former: Callable[[], Sequence[bytes]]) -> None:
        self._keys, self._purpose, self._former = keys, purpose, former

    async def newest(self, tenant: TenantId) -> TenantKey:
        return await self._keys.newest(tenant, self._purpose)

    async def opening(self, tenant: TenantId, header: bytes) -> Sequence[bytes]:
        named = key_id(header)
        if named is None:
            return self._former()
        return ((await self._keys.find(tenant, self._purpose, named)).secret,)
