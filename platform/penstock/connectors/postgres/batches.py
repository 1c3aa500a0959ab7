"""Batches in Postgres: as their tenants see them, and as runners work on them.

Every change locks the batch's row and applies a pure transition of ``domain/jobs/batch.py``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec
from asyncpg import Record

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.jobs import alone, cancel_lines, check_kept, enqueue, note_act, pause, resume
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import IdempotencyMismatch, OverLimit, UnknownObject
from penstock.domain.ids import KeyId, TenantId, VersionId
from penstock.domain.jobs import batch as batches
from penstock.domain.jobs.batch import Batch, BatchState, Counts, EndedLine, LineFault, Tokens
from penstock.domain.jobs.file import FilePurpose, FileState, StoredFile
from penstock.domain.jobs.ids import BatchId, FileId, ObjectId, RunnerId
from penstock.domain.jobs.job import EnqueueLimits, NewJob, Reason, pause_of
from penstock.domain.serving.request import Api

MOST_OPEN = 2_000
"""Batches of one tenant that have not ended: OpenAI's bound for an hour."""
_SQL = load("batches")
_LIVE = frozenset({BatchState.IN_PROGRESS, BatchState.FINALIZING, BatchState.CANCELLING})
_TIMES = msgspec.json.Decoder(dict[BatchState, float])
_TEXTS = msgspec.json.Decoder(dict[str, str])
_FAULTS = msgspec.json.Decoder(tuple[LineFault, ...])


class PostgresBatches:
    """A tenant's batches; those of others raise ``UnknownObject``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keyed(self, tenant: TenantId, idempotency: str, fingerprint: str) -> Batch | None:
        """Return the batch that was made under a key; raises ``IdempotencyMismatch`` for another body."""
        row = await self._database.row(_SQL["keyed"], tenant, idempotency)
        if row is not None and row["fingerprint"] != fingerprint:
            raise IdempotencyMismatch(param="idempotency-key")
        return None if row is None else await self._counted(_batch(row))

    async def create(self, batch: Batch, idempotency: str, fingerprint: str, kept_bytes: int = 0) -> Batch | None:
        """Return the new batch, with its input file's object; None if its key was used meanwhile."""
        async with self._database.transaction() as session:
            if kept_bytes:
                await alone(session, batch.tenant)
            file = await session.row(_SQL["input"], batch.input_file, batch.tenant, batch.created_at)
            if file is None:
                raise UnknownObject("there is no such batch file, or it has expired", param="input_file_id")
            await _check_open(session, batch.tenant)
            row = await session.row(_SQL["create"], *_new(batch, file["object"]), idempotency, fingerprint)
            if row is not None:
                await check_kept(session, batch.tenant, row["kept_bytes"], kept_bytes, batch.created_at)
        return None if row is None else _batch(row)

    async def find(self, tenant: TenantId, batch: BatchId) -> Batch:
        row = await self._database.row(_SQL["find"], batch, tenant)
        if row is None:
            raise UnknownObject
        return await self._counted(_batch(row))

    async def page(
        self, tenant: TenantId, *, after: BatchId, limit: int, is_oldest_first: bool
    ) -> tuple[Batch, ...] | None:
        """Return the batches after one of the tenant's; None if it has no such batch."""
        if after and await self._database.row(_SQL["find"], after, tenant) is None:
            return None
        sql = _SQL["oldest"] if is_oldest_first else _SQL["newest"]
        rows = await self._database.rows(sql, tenant, after, limit)
        found = tuple(map(_batch, rows))
        counts = await self._counts([one.id for one in found if one.state in _LIVE])
        return tuple(_with(one, counts.get(one.id)) for one in found)

    async def cancel(self, tenant: TenantId, batch: BatchId, now: float) -> Batch:
        async with self._database.transaction() as session:
            found = await _changed(session, tenant, batch, lambda one: batches.cancelling(one, now))
            await cancel_lines(session, batch, now)
        return await self._counted(found)

    async def pause(self, tenant: TenantId, batch: BatchId, now: float) -> Batch:
        async with self._database.transaction() as session:
            found = await _changed(session, tenant, batch, lambda one: batches.paused(one, now))
            await note_act(session, tenant)
            await pause(session, pause_of(batch), now)
        return await self._counted(found)

    async def resume(self, tenant: TenantId, batch: BatchId) -> Batch:
        async with self._database.transaction() as session:
            found = await _changed(session, tenant, batch, batches.resumed)
            await note_act(session, tenant)
            await resume(session, pause_of(batch))
        return await self._counted(found)

    async def waiting(self, which: Collection[BatchId], now: float) -> Mapping[BatchId, Reason]:
        """Return why each of these batches' lines wait; ``Reason.NONE`` if only for their turn."""
        rows = await self._database.rows(_SQL["waiting"], list(which), now)
        return {BatchId(row["id"]): Reason(row["reason"]) for row in rows}

    async def _counted(self, batch: Batch) -> Batch:
        """Return the batch with counts from its lines' rows, if it has any yet or still."""
        if batch.state not in _LIVE:
            return batch
        return _with(batch, (await self._counts([batch.id])).get(batch.id))

    async def _counts(self, which: Sequence[BatchId]) -> Mapping[str, Record]:
        rows = await self._database.rows(_SQL["counts"], which) if which else []
        return {row["batch"]: row for row in rows}


class PostgresBatchWork:
    """Batches as runners work on them: what a runner no longer holds under its epoch, it does not change."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def advance(self, now: float) -> None:
        """Move batches after their last line has ended."""
        async with self._database.transaction() as session:
            for row in await session.rows(_SQL["ended_lines"]):
                await _save(session, batches.lines_ended(_batch(row), now, is_late=row["has_late"]))

    async def claim(
        self, runner: RunnerId, states: Collection[BatchState], held: Collection[BatchId], now: float, limit: int
    ) -> tuple[Batch, ...]:
        """Return batches to judge or to close; ``held`` are those that this runner works on already."""
        rows = await self._database.rows(_SQL["claim"], runner, list(states), list(held), now, limit)
        return tuple(map(_batch, rows))

    async def begin(self, batch: Batch, lines: Iterable[NewJob], limits: EnqueueLimits, now: float) -> bool:
        """Queue all lines with the batch's transition, or none; ``batch`` has their total and versions.

        Raises ``OverEnqueued``, or ``ExceedsLimit``.
        """
        async with self._database.transaction() as session:
            if (found := await _held(session, batch)) is None or found.state is not BatchState.VALIDATING:
                return False
            await enqueue(session, batch.tenant, lines, limits)
            await _save(session, batches.begun(found, batch.counts.total, batch.versions, now))
            await session.run(_SQL["let_go"], batch.id)
        return True

    async def refuse(self, batch: Batch, faults: Sequence[LineFault], now: float) -> bool:
        async with self._database.transaction() as session:
            if (found := await _held(session, batch)) is None or found.state is not BatchState.VALIDATING:
                return False
            await _end(session, batches.refused(found, faults, now))
        return True

    async def close(
        self, batch: Batch, counts: Counts, tokens: Tokens, files: Sequence[StoredFile | None], now: float
    ) -> bool:
        """Store the files' rows with the batch's end."""
        async with self._database.transaction() as session:
            if (found := await _held(session, batch)) is None or found.state is not batch.state:
                return False
            for file in filter(None, files):
                await session.run(_SQL["add_file"], *_columns(file))
            output, error = (FileId("") if file is None else file.id for file in files)
            await _end(session, batches.closed(found, counts, tokens, (output, error), now))
        return True

    async def put_back(self, batch: Batch, next_at: float, *, was_its_fault: bool) -> None:
        await self._database.rows(_SQL["put_back"], batch.id, batch.epoch, next_at, was_its_fault)

    async def lines(self, batch: BatchId, after: EndedLine | None, limit: int) -> tuple[EndedLine, ...]:
        """Return ended lines after one of them, in the order of their stored answers."""
        last = ("", -1, 0) if after is None else (after.answer, after.at, after.number)
        rows = await self._database.rows(_SQL["lines"], batch, *last, limit)
        return tuple(EndedLine(*row) for row in rows)

    async def uncleared(self, before: float, limit: int) -> tuple[BatchId, ...]:
        """Return ended batches that still have lines."""
        return tuple(row["id"] for row in await self._database.rows(_SQL["uncleared"], before, limit))

    async def segments(self, batch: BatchId) -> tuple[ObjectId, ...]:
        return tuple(row["output_object"] for row in await self._database.rows(_SQL["segments"], batch))

    async def clear(self, batch: BatchId) -> None:
        """Remove the rows of an ended batch's lines; their stored answers were deleted before."""
        while await self._database.rows(_SQL["forget_lines"], batch):
            pass
        await self._database.rows(_SQL["cleared"], batch)

    async def forget(self, now: float, kept_s: float, limit: int) -> None:
        """Remove batches that ended ``kept_s`` ago, and as long as their files were to be kept."""
        await self._database.rows(_SQL["forget"], now, kept_s, limit)


async def _check_open(session: Session, tenant: TenantId) -> None:
    row = await session.row(_SQL["open"], tenant)
    if row is not None and row["open"] >= MOST_OPEN:
        raise OverLimit(f"this tenant has {MOST_OPEN} batches that have not ended", reason="open_batches")


async def _changed(session: Session, tenant: TenantId, batch: BatchId, change: Callable[[Batch], Batch]) -> Batch:
    row = await session.row(_SQL["lock"], batch, tenant)
    if row is None:
        raise UnknownObject
    changed = change(_batch(row))
    await _save(session, changed)
    return changed


async def _held(session: Session, batch: Batch) -> Batch | None:
    row = await session.row(_SQL["held"], batch.id, batch.epoch)
    return None if row is None else _batch(row)


async def _save(session: Session, batch: Batch) -> None:
    await session.run(
        _SQL["save"],
        batch.id,
        batch.state,
        _json(batch.times),
        batch.at(batch.state) if batch.state.is_over else 0.0,
        _json(batch.faults),
        _json(batch.versions),
        batch.counts.total,
        batch.counts.completed,
        batch.counts.failed,
        batch.tokens.prompt,
        batch.tokens.output,
        batch.output_file,
        batch.error_file,
        batch.paused_at,
        batch.is_late,
    )


async def _end(session: Session, batch: Batch) -> None:
    """Save the batch's end with its event; no pause outlives it."""
    await _save(session, batch)
    await session.run(_SQL["let_go"], batch.id)
    await resume(session, pause_of(batch.id))
    await session.run(_SQL["tell"], batch.tenant, f"batch.{batch.state}", batch.id)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _new(batch: Batch, input_object: str) -> tuple[object, ...]:
    return (
        batch.id,
        batch.tenant,
        batch.key,
        batch.endpoint,
        batch.input_file,
        input_object,
        batch.window,
        batch.created_at,
        batch.deadline_at,
        _json(batch.metadata),
        batch.output_keep_s,
    )


def _columns(file: StoredFile) -> tuple[object, ...]:
    return (
        file.id,
        file.tenant,
        file.key,
        file.name,
        FilePurpose.BATCH_OUTPUT,
        file.size_bytes,
        file.created_at,
        file.expires_at,
        file.object,
        FileState.READY,
    )


def _with(batch: Batch, row: Record | None) -> Batch:
    if row is None:
        return batch
    return replace(
        batch,
        counts=Counts(total=batch.counts.total, completed=row["completed"], failed=row["failed"]),
        tokens=Tokens(prompt=row["prompt_tokens"], output=row["output_tokens"]),
    )


def _batch(row: Record) -> Batch:
    return Batch(
        id=BatchId(row["id"]),
        tenant=TenantId(row["tenant"]),
        key=KeyId(row["key"]),
        endpoint=Api(row["endpoint"]),
        input_file=FileId(row["input_file"]),
        input_object=ObjectId(row["input_object"]),
        window=row["completion_window"],
        created_at=row["created_at"],
        deadline_at=row["deadline_at"],
        state=BatchState(row["state"]),
        times=_TIMES.decode(row["times"]),
        metadata=_TEXTS.decode(row["metadata"]),
        output_keep_s=row["output_keep_s"],
        faults=_FAULTS.decode(row["faults"]),
        versions={name: VersionId(one) for name, one in _TEXTS.decode(row["versions"]).items()},
        counts=Counts(total=row["total"], completed=row["completed"], failed=row["failed"]),
        tokens=Tokens(prompt=row["prompt_tokens"], output=row["output_tokens"]),
        output_file=FileId(row["output_file"]),
        error_file=FileId(row["error_file"]),
        paused_at=row["paused_at"],
        is_late=row["is_late"],
        epoch=row["epoch"],
        tries=row["tries"],
    )
