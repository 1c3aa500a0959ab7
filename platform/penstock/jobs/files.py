"""Files of tenants: an upload reserves its room, is sealed as it comes, and becomes visible whole, or not at all.

Its row comes first and is a sign of life while bytes arrive: of an upload that died with its process the room is free
again after two minutes, and retention takes the bytes.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, IdempotencyMismatch, UnknownObject
from penstock.domain.ids import TenantId
from penstock.domain.jobs.file import (
    RANDOM_BYTES,
    FileLimits,
    FilePage,
    FilePurpose,
    FileState,
    StoredFile,
    expiry,
    file_id,
    object_of,
)
from penstock.domain.jobs.ids import FileId
from penstock.domain.jobs.payload import PayloadStore, PayloadWriter
from penstock.domain.tenancy.tenant import FETCHED_S, Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.files import MOST_FORM_BYTES, FileWish

ALIVE_S = 120.0
"""Seconds after its last sign of life for which an upload holds its reserved room."""
TOUCH_S = 30.0


class FileStore(Protocol):
    """Rows of files; those of other tenants, deleted and expired ones raise ``UnknownObject``."""

    async def begin(self, file: StoredFile, limits: FileLimits) -> None:
        """Insert an upload with the room that it reserves; raises ``OverLimit``."""
        ...

    async def touch(self, file: FileId, until: float) -> None: ...

    async def finish(self, file: StoredFile, limits: FileLimits, now: float) -> None:
        """Make the upload a file; raises ``OverLimit``, or ``Conflict`` if its idempotency key has a file."""
        ...

    async def abandon(self, file: FileId, now: float) -> None: ...

    async def keyed(self, tenant: TenantId, idempotency: str, now: float) -> StoredFile | None: ...

    async def find(self, tenant: TenantId, file: FileId, now: float) -> StoredFile: ...

    async def page(self, tenant: TenantId, wanted: FilePage, now: float) -> tuple[StoredFile, ...]: ...

    async def delete(self, tenant: TenantId, file: FileId, now: float) -> None: ...

    async def expire(self, tenant: TenantId, file: FileId, at: float) -> None:
        """Let a file expire at this time, unless it does earlier."""
        ...


@dataclass(frozen=True, slots=True)
class TenantFiles:
    store: FileStore
    payloads: PayloadStore
    clock: Clock

    @asynccontextmanager
    async def upload(self, who: Principal, key: str, declared_bytes: int) -> "AsyncIterator[_Upload | _Repeat]":
        idempotency, now = _hashed(key), self.clock.now()
        if idempotency and (kept := await self.store.keyed(who.tenant, idempotency, now)) is not None:
            yield _Repeat(kept)
            return
        made = file_id(now, secrets.token_bytes(RANDOM_BYTES))
        file = StoredFile(
            id=made,
            tenant=who.tenant,
            key=who.key,
            name="",
            purpose=FilePurpose.BATCH,
            size_bytes=max(0, declared_bytes - MOST_FORM_BYTES),
            created_at=now,
            expires_at=now + ALIVE_S,
            object=object_of(made),
            state=FileState.UPLOADING,
            idempotency=idempotency,
        )
        await self.store.begin(file, _limits(who))
        upload = _Upload(self, who, file)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(upload.close)
            upload.writer = await stack.enter_async_context(self.payloads.writer(who.tenant, file.object))
            yield upload

    async def find(self, who: Principal, file: str) -> StoredFile:
        return await self.store.find(who.tenant, FileId(file), self.clock.now())

    async def page(self, who: Principal, wanted: FilePage) -> tuple[tuple[StoredFile, ...], bool]:
        if wanted.after:
            try:
                await self.find(who, wanted.after)
            except UnknownObject:
                raise shapes.unlisted() from None
        found = await self.store.page(who.tenant, replace(wanted, limit=wanted.limit + 1), self.clock.now())
        return found[: wanted.limit], len(found) > wanted.limit

    async def content(self, who: Principal, file: StoredFile) -> AsyncIterator[bytes]:
        async for piece in self.payloads.read(file.tenant, file.object):
            yield piece
        if who.plan.zero_retention and file.purpose is FilePurpose.BATCH_OUTPUT:
            await self.store.expire(file.tenant, file.id, self.clock.now() + FETCHED_S)

    async def delete(self, who: Principal, file: str) -> None:
        await self.store.delete(who.tenant, FileId(file), self.clock.now())


class _Digest:
    """The fingerprint of an upload: its bytes and all that its caller wished."""

    def __init__(self) -> None:
        self._content = hashlib.sha256()

    def add(self, data: bytes) -> None:
        self._content.update(data)

    def fingerprint(self, wish: FileWish) -> str:
        told = f"{wish.name}\x1f{wish.purpose}\x1f{wish.expires_after_s:g}\x1f{self._content.hexdigest()}"
        return hashlib.sha256(told.encode()).hexdigest()


class _Upload:
    writer: PayloadWriter

    def __init__(self, files: TenantFiles, who: Principal, file: StoredFile) -> None:
        self._files, self._who, self._file = files, who, file
        self._digest, self._touched_at, self._is_kept = _Digest(), file.created_at, False

    async def write(self, data: bytes) -> None:
        if self._file.idempotency:
            self._digest.add(data)
        await self.writer.write(data)
        now = self._files.clock.now()
        if now - self._touched_at > TOUCH_S:
            self._touched_at = now
            await self._files.store.touch(self._file.id, now + ALIVE_S)

    async def finish(self, wish: FileWish) -> StoredFile:
        store, now, plan = self._files.store, self._files.clock.now(), self._who.plan
        await store.touch(self._file.id, now + ALIVE_S)
        size = await self.writer.commit()
        kept = replace(
            self._file,
            name=wish.name,
            purpose=wish.purpose,
            size_bytes=size,
            expires_at=expiry(self._file.created_at, wish.expires_after_s, plan.files_kept_s),
            state=FileState.READY,
            fingerprint=self._digest.fingerprint(wish),
        )
        try:
            await store.finish(kept, _limits(self._who), now)
        except Conflict:
            first = await store.keyed(kept.tenant, kept.idempotency, now)
            return _same(first, kept.fingerprint)
        self._is_kept = True
        return kept

    async def close(self) -> None:
        """Release what a broken-off upload reserved; the row leads retention to its bytes."""
        if not self._is_kept:
            await self._files.store.abandon(self._file.id, self._files.clock.now())


class _Repeat:
    """An upload under an idempotency key that has a file: it is compared, and nothing is stored."""

    def __init__(self, kept: StoredFile) -> None:
        self._kept, self._digest = kept, _Digest()

    async def write(self, data: bytes) -> None:
        self._digest.add(data)

    async def finish(self, wish: FileWish) -> StoredFile:
        return _same(self._kept, self._digest.fingerprint(wish))


def _same(first: StoredFile | None, fingerprint: str) -> StoredFile:
    if first is None:
        raise Conflict("the file of this idempotency key has just expired; send it again")
    if first.fingerprint != fingerprint:
        raise IdempotencyMismatch(param="idempotency-key")
    return first


def _limits(who: Principal) -> FileLimits:
    return FileLimits(files=who.plan.files, size_bytes=who.plan.file_bytes)


def _hashed(key: str) -> str:
    return f"files/{hashlib.sha256(key.encode()).hexdigest()}" if key else ""
