"""Work of runners on batches themselves: judging their files, writing their results, removing what is left.

Each step claims batches under this runner's life and an epoch; what was claimed again meanwhile is not changed. A
runner's death leaves a batch as it was: the next one begins that step anew. Lines run as any job does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.domain.clock import DAY_S, Clock
from penstock.domain.errors import (
    Evicted,
    ExceedsLimit,
    Rejected,
    StoreUnavailable,
)
from penstock.domain.ids import Alias, KeyId, TenantId
from penstock.domain.jobs.batch import MOST_TRIES, Batch, BatchState, Counts, EndedLine, LineFault, Tokens
from penstock.domain.jobs.errors import NoFileRoom, OverEnqueued, PayloadGone, PayloadUnreadable
from penstock.domain.jobs.file import FilePurpose, StoredFile, file_id, object_of
from penstock.domain.jobs.ids import BatchId, FileId, JobName, ObjectId, RunnerId
from penstock.domain.jobs.job import EnqueueLimits, JobKind, NewJob
from penstock.domain.jobs.payload import Extent, PayloadStore
from penstock.domain.tenancy.tenant import Plan, Principal
from penstock.jobs.assembling import assemble
from penstock.jobs.submitting import limits_of
from penstock.jobs.validation import Checked, Validator

EVERY_S = 0.5
"""Seconds between two looks: a small part of what a batch takes."""
AT_ONCE = 2
"""Batches of one kind of work at once in a runner: one large file does not hold up all others."""
RETRY_S = 5.0
"""Seconds after which work is tried again that a store or this process hindered."""
NEW_KEY_S = 30.0
"""Seconds within which a key that was just made reaches every runner."""
PAGE = 10_000
"""Lines whose rows are in memory at once while results are written."""
KEPT_S = 600.0
"""Seconds for which lines and their stored answers outlive their batch, for whoever looks into one that just ended."""
ROW_KEPT_S = 30 * DAY_S
"""Seconds for which an ended batch is shown, or as long as its results if those are kept longer."""
_NOT_ITS_FAULT = (StoreUnavailable, Rejected, Evicted, EOFError)


class BatchWork(Protocol):
    """The store; each change returns False, and changes nothing, if the batch is no longer held."""

    async def advance(self, now: float) -> None: ...

    async def claim(
        self, runner: RunnerId, states: Collection[BatchState], held: Collection[BatchId], now: float, limit: int
    ) -> tuple[Batch, ...]: ...

    async def begin(self, batch: Batch, lines: Iterable[NewJob], limits: EnqueueLimits, now: float) -> bool: ...

    async def refuse(self, batch: Batch, faults: Sequence[LineFault], now: float) -> bool: ...

    async def close(
        self, batch: Batch, counts: Counts, tokens: Tokens, files: Sequence[StoredFile | None], now: float
    ) -> bool: ...

    async def put_back(self, batch: Batch, next_at: float, *, was_its_fault: bool) -> None: ...

    async def lines(self, batch: BatchId, after: EndedLine | None, limit: int) -> tuple[EndedLine, ...]: ...

    async def uncleared(self, before: float, limit: int) -> tuple[BatchId, ...]: ...

    async def forget(self, now: float, kept_s: float, limit: int) -> None: ...

    async def segments(self, batch: BatchId) -> tuple[ObjectId, ...]: ...

    async def clear(self, batch: BatchId) -> None: ...


Principals = Callable[[TenantId, KeyId], Principal | None]
"""Returns what a batch's key may do now; None for one that was revoked, or is not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchParts:
    """Parts of both kinds of work; ``ids`` gives hex digits that are used once."""

    store: BatchWork
    me: Callable[[], RunnerId | None]
    """Returns this runner's id while it is alive."""
    payloads: PayloadStore
    clock: Clock
    ids: Callable[[], str]
    crashed: Callable[[BaseException], None]
    closed: Callable[[Counts], None]
    """Called with the counts of each batch whose files were written."""


Work = Callable[[Batch], Coroutine[object, object, None]]


class _Claims:
    """Claims batches in some states and works on each; a failure puts its batch back and ends no other's work."""

    def __init__(self, parts: BatchParts, *states: BatchState) -> None:
        self._parts, self._states = parts, states
        self._held: set[BatchId] = set()

    async def each(self, work: Work, now: float) -> None:
        runner = self._parts.me()
        if runner is None:
            return
        claimed = await self._parts.store.claim(runner, self._states, self._held, now, AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for batch in claimed:
                group.create_task(self._one(batch, work))

    async def _one(self, batch: Batch, work: Work) -> None:
        parts = self._parts
        self._held.add(batch.id)
        try:
            await work(batch)
        except _NOT_ITS_FAULT:
            await parts.store.put_back(batch, parts.clock.now() + RETRY_S, was_its_fault=False)
        except Exception as error:  # noqa: BLE001  a batch that fails here must not end the work on all others
            parts.crashed(error)
            await parts.store.put_back(batch, parts.clock.now() + RETRY_S, was_its_fault=True)
        finally:
            self._held.discard(batch.id)


class BatchJudging:
    """An upkeep of runners: judges input files, and queues all lines of a batch or none."""

    name, every_s = "batch_judging", EVERY_S

    def __init__(self, parts: BatchParts, validator: Validator, principals: Principals) -> None:
        self._store, self._payloads, self._clock, self._ids = parts.store, parts.payloads, parts.clock, parts.ids
        self._validator, self._principals = validator, principals
        self._claims = _Claims(parts, BatchState.VALIDATING)

    async def step(self, now: float) -> None:
        await self._claims.each(self._judge, now)

    async def _judge(self, batch: Batch) -> None:
        who = self._principals(batch.tenant, batch.key)
        if who is None and self._clock.now() < batch.created_at + NEW_KEY_S:
            await self._store.put_back(batch, self._clock.now() + 1.0, was_its_fault=False)
            return
        if who is None:
            await self._refuse(batch, "key_revoked", "the key of this batch was revoked")
        elif batch.tries > MOST_TRIES:
            await self._refuse(batch, "validation_failed", "the file could not be read in several attempts")
        else:
            await self._judge_as(batch, who)

    async def _judge_as(self, batch: Batch, who: Principal) -> None:
        pieces = self._payloads.read(batch.tenant, batch.input_object)
        try:
            checked = await self._validator.judge(pieces, who, batch.endpoint)
        except (PayloadGone, PayloadUnreadable) as error:
            await self._refuse(batch, "file_unreadable", error.message)
            return
        if checked.faults:
            await self._store.refuse(batch, checked.faults, self._clock.now())
            return
        plan, now = who.plan, self._clock.now()
        judged = replace(batch, counts=Counts(total=len(checked.lines)), versions=checked.versions)
        try:
            await self._store.begin(judged, self._lines(batch, checked, plan), limits_of(plan), now)
        except (OverEnqueued, NoFileRoom, ExceedsLimit) as error:
            is_room = error.reason == "tenant_file_bytes"
            await self._refuse(batch, NoFileRoom.code if is_room else OverEnqueued.code, error.message)

    def _lines(self, batch: Batch, checked: Checked, plan: Plan) -> Iterator[NewJob]:
        stem = self._ids()
        for line in checked.lines:
            yield NewJob(
                name=JobName(f"batch_req_{stem}{line.number:08x}"),
                tenant=batch.tenant,
                key=batch.key,
                kind=JobKind.LINE,
                api=batch.endpoint,
                model=Alias(line.model),
                version=line.version,
                cost_tokens=line.cost_tokens,
                cost_micro_usd=line.cost_micro_usd,
                created_at=batch.created_at,
                deadline_at=batch.deadline_at,
                max_attempts=plan.job_attempts,
                keep_s=plan.keep_s,
                input=Extent(object=batch.input_object, at=line.at, size=line.size),
                batch=batch.id,
                line=line.number,
            )

    async def _refuse(self, batch: Batch, code: str, message: str) -> None:
        await self._store.refuse(batch, [LineFault(code=code, message=message)], self._clock.now())


class BatchClosing:
    """An upkeep of runners: writes a batch's files after its last line has ended, and removes its lines later."""

    name, every_s = "batch_closing", EVERY_S

    def __init__(self, parts: BatchParts, *, kept_s: float = KEPT_S) -> None:
        self._store, self._payloads, self._clock, self._ids = parts.store, parts.payloads, parts.clock, parts.ids
        self._kept_s, self._closed = kept_s, parts.closed
        self._claims = _Claims(parts, BatchState.FINALIZING, BatchState.CANCELLING)

    async def step(self, now: float) -> None:
        await self._store.advance(now)
        await self._claims.each(self._close, now)
        for batch in await self._store.uncleared(now - self._kept_s, AT_ONCE):
            for segment in await self._store.segments(batch):
                await self._payloads.delete(segment)
            await self._store.clear(batch)
        await self._store.forget(now, ROW_KEPT_S, AT_ONCE)

    async def _close(self, batch: Batch) -> None:
        now = self._clock.now()
        ids = (self._file_id(now), self._file_id(now))
        done = await assemble(self._payloads, batch, self._pages(batch), ids)
        now = self._clock.now()
        files = [
            _file(batch, "output", ids[0], done.output_bytes, now),
            _file(batch, "errors", ids[1], done.error_bytes, now),
        ]
        is_closed = False
        try:
            is_closed = await self._store.close(batch, done.counts, done.tokens, files, now)
        finally:
            if not is_closed:
                await self._remove(files)
        if is_closed:
            self._closed(done.counts)

    def _file_id(self, now: float) -> FileId:
        return file_id(now, bytes.fromhex(self._ids()))

    async def _remove(self, files: Sequence[StoredFile | None]) -> None:
        for file in filter(None, files):
            await self._payloads.delete(file.object)

    async def _pages(self, batch: Batch) -> AsyncIterator[Sequence[EndedLine]]:
        page: Sequence[EndedLine] = ()
        while page := await self._store.lines(batch.id, page[-1] if page else None, PAGE):
            yield page


def _file(batch: Batch, kind: str, file: FileId, size: int, now: float) -> StoredFile | None:
    if not size:
        return None
    return StoredFile(
        id=file,
        tenant=batch.tenant,
        key=batch.key,
        name=f"{batch.id}_{kind}.jsonl",
        purpose=FilePurpose.BATCH_OUTPUT,
        size_bytes=size,
        created_at=now,
        expires_at=now + batch.output_keep_s,
        object=object_of(file),
    )
