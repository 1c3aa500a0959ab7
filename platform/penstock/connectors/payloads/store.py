"""``PayloadStore`` over a store of opaque objects: sealed on the way in, opened on the way out.

Bytes are sealed on the event loop, a segment at a time, since a writer's pieces are small; files and network are waited
for in threads.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar

from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import PayloadGone, PayloadUnreadable
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import checked
from penstock.sealing.keys import Keys
from penstock.sealing.objects import Block, ObjectOpener, ObjectSealer
from penstock.sealing.segments import HEADER_BYTES, KeyGone, Subject, Unreadable, header_of


class Draft(Protocol):
    """An object that grows unseen. ``commit`` or ``abort`` ends it."""

    def write(self, data: bytes) -> None: ...

    def commit(self) -> None:
        """Raises ``Conflict`` if the name is taken."""
        ...

    def abort(self) -> None: ...


class Objects(Protocol):
    """Objects of opaque bytes. Called in threads; a name is written once."""

    def begin(self, name: str) -> Draft: ...

    def size(self, name: str) -> int:
        """Return the object's bytes; raises ``PayloadGone``, as ``read`` does for a name without an object."""
        ...

    def read(self, name: str, start: int, length: int) -> bytes: ...

    def delete(self, name: str) -> None: ...

    def names(self, before: float) -> Iterator[list[str]]:
        """Yield the objects last written before this Unix time, in groups of at most 1,000."""
        ...

    def sweep(self, before: float) -> int:
        """Remove drafts that were last written before this time; return their number."""
        ...


BLOCK_SEGMENTS = 16
"""Segments read at once: a megabyte, 1 ms of a thread."""
FLUSH_BYTES = 1 << 20
"""Sealed bytes of a writer that are handed on at once."""
THREADS = 8
"""Files and requests in progress for one process: a slow disk must not hold the threads of others."""
T = TypeVar("T")


class SealedPayloads:
    def __init__(self, objects: Objects, keys: Keys) -> None:
        self._objects, self._keys = objects, keys
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="payloads")

    @asynccontextmanager
    async def writer(self, tenant: TenantId, name: ObjectId) -> "AsyncIterator[_Writer]":
        sealer = ObjectSealer(await self._keys.newest(tenant), _subject(tenant, name))
        writer = _Writer(sealer, await self._run(lambda: self._objects.begin(name)), self._run)
        try:
            yield writer
        finally:
            if not writer.is_committed:
                await self._run(writer.draft.abort)

    async def read(
        self, tenant: TenantId, name: ObjectId, at: int = 0, size: int | None = None
    ) -> AsyncIterator[bytes]:
        subject = _subject(tenant, name)
        sealed_bytes, beginning = await self._run(lambda: self._beginning(name))
        try:
            header = header_of(beginning)
            opener = ObjectOpener(await self._keys.opening(tenant, header), subject, header, sealed_bytes)
        except KeyGone as error:
            raise PayloadGone from error
        except Unreadable as error:
            raise PayloadUnreadable from error
        for block in opener.blocks(at, size, BLOCK_SEGMENTS):
            yield await self._run(partial(self._block, opener, name, block))

    async def put(self, tenant: TenantId, name: ObjectId, data: bytes) -> None:
        async with self.writer(tenant, name) as writer:
            await writer.write(data)
            await writer.commit()

    async def get(self, tenant: TenantId, name: ObjectId, at: int = 0, size: int | None = None) -> bytes:
        return b"".join([piece async for piece in self.read(tenant, name, at, size)])

    async def delete(self, name: ObjectId) -> None:
        await self._run(lambda: self._objects.delete(checked(name)))

    async def names(self, before: float) -> AsyncIterator[tuple[ObjectId, ...]]:
        groups: Iterator[list[str]] = self._objects.names(before)
        while group := await self._run(lambda: next(groups, None)):
            yield tuple(map(ObjectId, group))

    async def sweep(self, before: float) -> int:
        return await self._run(lambda: self._objects.sweep(before))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _beginning(self, name: ObjectId) -> tuple[int, bytes]:
        size = self._objects.size(name)
        return size, self._objects.read(name, 0, min(size, HEADER_BYTES)) if size else b""

    def _block(self, opener: ObjectOpener, name: ObjectId, block: Block) -> bytes:
        try:
            return opener.open(block, self._objects.read(name, block.start, block.length))
        except Unreadable as error:
            raise PayloadUnreadable from error

    async def _run(self, act: Callable[[], T]) -> T:
        """Wait for a thread, to its end also if cancelled: what it writes must not be taken away meanwhile."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, act)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({running})
            running.exception()
            raise


class _Writer:
    def __init__(self, sealer: ObjectSealer, draft: Draft, run: "_Run") -> None:
        self.draft, self.is_committed = draft, False
        self._sealer, self._run = sealer, run
        self._ready: list[bytes] = []
        self._ready_bytes = 0

    async def write(self, data: bytes) -> None:
        self._keep(self._sealer.write(data))
        if self._ready_bytes >= FLUSH_BYTES:
            await self._flush()

    async def commit(self) -> int:
        self._keep(self._sealer.finish())
        await self._flush()
        await self._run(self.draft.commit)
        self.is_committed = True
        return self._sealer.size

    def _keep(self, sealed: bytes) -> None:
        if sealed:
            self._ready.append(sealed)
            self._ready_bytes += len(sealed)

    async def _flush(self) -> None:
        ready, self._ready, self._ready_bytes = b"".join(self._ready), [], 0
        await self._run(lambda: self.draft.write(ready))


_Run = Callable[[Callable[[], None]], Awaitable[None]]


def _subject(tenant: TenantId, name: ObjectId) -> Subject:
    return Subject("payloads", tenant, checked(name))
