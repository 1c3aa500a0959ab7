"""Deferred requests in Postgres. What holds of every claim and end is in the migration's functions and triggers."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import asyncpg
import msgspec

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.ledger import append
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict, ExceedsLimit, IdempotencyMismatch, OverLimit
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.errors import NoFileRoom, OverEnqueued
from penstock.domain.jobs.ids import BatchId, JobId, JobName, ObjectId, RunnerId
from penstock.domain.jobs.job import (
    ACTS_S,
    MOST_ACTS,
    MOST_ATTEMPTS_KEPT,
    MOST_REPLAYED,
    NO_KEY,
    TOO_MANY_ACTS,
    Attempt,
    ClaimQuota,
    End,
    EnqueueLimits,
    Job,
    JobFilter,
    JobKind,
    JobState,
    NewJob,
    PutBack,
    QueueShape,
    Reason,
    Stop,
    StopReason,
    Submitted,
    Unended,
)
from penstock.domain.jobs.payload import ROW_BYTES, Extent
from penstock.domain.money import MicroUsd
from penstock.domain.serving.request import Api

_SQL = load("jobs")
_GROUP = 2000
"""Jobs that one statement stores at most: tens of milliseconds."""
_MOST_ENDED = 2000
"""Jobs that one call of ``tidy`` ends at most: each keeps its locks until the call's transaction ends."""
_MEND_EACH_S = 0.05
"""Seconds between looks for jobs whose time has come: half of what a submit may take to run when all is idle."""
_RECOVER_EACH_S = 60.0
_COLUMNS = (
    *("name", "tenant", "key", "batch", "line", "kind", "api", "model", "version", "cost_tokens", "cost_micro_usd"),
    *("reason", "waits", "max_attempts", "not_before", "deadline_at", "created_at", "keep_s"),
    *("input_object", "input_at", "input_bytes", "webhook", "metadata", "idempotency", "fingerprint"),
)
_SAME = tuple(
    name
    for name in Job.__dataclass_fields__
    if name not in ("kind", "api", "state", "reason", "input", "output", "metadata")
)
_METADATA = msgspec.json.Decoder(dict[str, str])


class PostgresJobs:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._mended_at = self._recovered_at = float("-inf")

    async def submit(self, job: NewJob, limits: EnqueueLimits) -> Submitted:
        async with self._database.transaction() as session:
            if limits.jobs or limits.kept_bytes:
                await alone(session, job.tenant)
            row = await session.row(_SQL["submit"], *_values(job))
            if row is not None:
                await _check(session, job.tenant, {job.model: job.cost_tokens}, 1, limits)
                await check_kept(session, job.tenant, row["kept_bytes"], limits.kept_bytes, job.created_at)
                return Submitted(job=_job(row), is_new=True)
            row = await session.row(_SQL["submitted"], job.tenant, job.idempotency)
        if row is None:  # forgotten between the two statements
            raise Conflict("this idempotency key is being forgotten; send the request again")
        if row["fingerprint"] != job.fingerprint:
            raise IdempotencyMismatch
        return Submitted(job=_job(row), is_new=False)

    async def keyed(self, tenant: TenantId, idempotency: str) -> Job | None:
        row = await self._database.row(_SQL["submitted"], tenant, idempotency)
        return None if row is None else _job(row)

    async def kept(self, tenant: TenantId, now: float) -> int:
        return await _kept(self._database, tenant, now)

    async def find(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        row = await self._database.row(_SQL["find"], tenant, name, now)
        return None if row is None else _job(row)

    async def page(
        self,
        tenant: TenantId | None,
        which: JobFilter,
        now: float,
        *,
        limit: int,
        after: JobName | None = None,
        newest_first: bool = True,
    ) -> tuple[Job, ...]:
        sql = _SQL["page_newest"] if newest_first else _SQL["page_oldest"]
        sql = _SQL["page_of_all"] if tenant is None else sql
        matched = (which.kind, which.state or "", which.reason or "", which.model)
        rows = await self._database.rows(sql, tenant, *matched, now, after or "", which.error, limit)
        return tuple(map(_job, rows))

    async def attempts(self, job: JobId) -> tuple[Attempt, ...]:
        return tuple(Attempt(**dict(row)) for row in await self._database.rows(_SQL["attempts"], job))

    async def cancel(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        await self._database.rows(_SQL["cancel"], tenant, name, now)
        return await self.find(tenant, name, now)

    async def replay(
        self, tenant: TenantId, name: JobName, now: float, limits: EnqueueLimits, by: KeyId = NO_KEY
    ) -> Job | None:
        async with self._database.transaction() as session:
            row = await session.row(_SQL["find"], tenant, name, now)
            if row is None:
                return None
            await _replay(session, tenant, [_job(row)], (now, by), limits)
            row = await session.row(_SQL["find"], tenant, name, now)
        return None if row is None else _job(row)

    async def replay_all(
        self, tenant: TenantId | None, which: JobFilter, now: float, limits: EnqueueLimits, by: KeyId = NO_KEY
    ) -> int:
        matched = (which.kind, which.state or JobState.FAILED, which.reason or "", which.model, which.error)
        async with self._database.transaction() as session:
            rows = await session.rows(_SQL["to_replay"], tenant, *matched, now, list(which.usable), MOST_REPLAYED)
            await _replay(session, tenant, list(map(_job, rows)), (now, by), limits)
        return len(rows)

    async def delete(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        row = await self._database.row(_SQL["delete"], tenant, name, now)
        if row is None and await self.find(tenant, name, now) is not None:
            raise Conflict("the job has not ended: cancel it first")
        return None if row is None else _job(row)

    async def claim(self, runner: RunnerId, quotas: Sequence[ClaimQuota], now: float) -> tuple[Job, ...]:
        if now - self._mended_at >= _MEND_EACH_S:
            await self._mend(now)
        quotas = [one for one in quotas if one.jobs > 0]
        closed = msgspec.json.encode([sorted(one.closed) for one in quotas]).decode()
        versions, counts = [one.version for one in quotas], [one.jobs for one in quotas]
        return tuple(map(_job, await self._database.rows(_SQL["claim"], runner, versions, counts, closed, now)))

    async def finish(self, ends: Sequence[End]) -> frozenset[JobId]:
        if not any(end.row for end in ends):
            rows = await self._database.rows(_SQL["finish"], *_columns(map(_end_values, ends), 13))
            return frozenset(row["id"] for row in rows)
        async with self._database.transaction() as session:
            rows = await session.rows(_SQL["finish"], *_columns(map(_end_values, ends), 13))
            held = frozenset(row["id"] for row in rows)
            await _bill(session, ends, held)
        return held

    async def put_back(self, ends: Sequence[PutBack]) -> Mapping[JobId, JobState]:
        values = (
            (end.id, end.epoch, end.at, end.not_before, end.reason, end.may_have_run, end.error, end.request)
            for end in ends
        )
        async with self._database.transaction() as session:
            rows = await session.rows(_SQL["put_back"], *_columns(values, 8))
            states = {row["id"]: JobState(row["state"]) for row in rows}
            await _bill(session, ends, states)
        return states

    async def asked_to_stop(self, runner: RunnerId, now: float) -> tuple[Stop, ...]:
        rows = await self._database.rows(_SQL["asked_to_stop"], runner, now)
        return tuple(Stop(id=row["id"], epoch=row["epoch"], why=StopReason(row["why"])) for row in rows)

    async def pause(self, scope: str, now: float) -> None:
        await self._database.rows(_SQL["pause"], scope, now)

    async def resume(self, scope: str) -> None:
        await self._database.rows(_SQL["resume"], scope)

    async def paused(self) -> frozenset[str]:
        return frozenset(row["scope"] for row in await self._database.rows(_SQL["paused"]))

    async def tidy(self, now: float) -> int:
        if now - self._recovered_at >= _RECOVER_EACH_S:
            await self._database.rows(_SQL["recover"])
            self._recovered_at = now
        await self._mend(now)
        ended = 0
        for sql, values in ((_SQL["end_queued"], (now, _MOST_ENDED)), (_SQL["end_overdue"], (now,))):
            (row,) = await self._database.rows(sql, *values)
            ended += int(row["ended"])
        return ended

    async def shape(self) -> QueueShape:
        row = await self._database.row(_SQL["shape"])
        return QueueShape(**dict(row)) if row is not None else QueueShape()

    async def unended(self) -> Unended:
        row = await self._database.row(_SQL["unended"])
        return Unended(**dict(row)) if row is not None else Unended()

    async def expired(self, now: float, limit: int) -> tuple[Job, ...]:
        return tuple(map(_job, await self._database.rows(_SQL["expired"], now, limit)))

    async def forget(self, jobs: Collection[JobId]) -> None:
        await self._database.rows(_SQL["forget"], list(jobs))

    async def _mend(self, now: float) -> None:
        await self._database.rows(_SQL["mend"], now)
        self._mended_at = now


async def _bill(session: Session, ends: Sequence[End] | Sequence[PutBack], held: Collection[JobId]) -> None:
    """Append the attempts' ledger rows: what came too late is free, and of what a job's earlier attempts told and paid
    no more is paid than is beyond.
    """
    rows = [(end, end.row) for end in ends if end.row is not None]
    later = [end for end, row in rows if end.id in held and end.epoch > 1 and row.cost]
    paid: dict[JobId, int] = {}
    if later:
        found = await session.rows(_SQL["paid"], [end.id for end in later], [end.epoch for end in later])
        paid = {row["id"]: row["paid"] for row in found}
    costs = [max(0, row.cost - paid.get(end.id, 0)) if end.id in held else 0 for end, row in rows]
    await append(session, [replace(row, cost=MicroUsd(cost)) for (_, row), cost in zip(rows, costs, strict=True)])


async def enqueue(session: Session, tenant: TenantId, jobs: Iterable[NewJob], limits: EnqueueLimits) -> None:
    """Store all jobs of one tenant in the caller's transaction; ``OverEnqueued`` is to undo it.

    In groups: each statement is short, and the event loop free between them.
    """
    if limits.jobs or limits.kept_bytes:
        await alone(session, tenant)
    waiting, asked, count, now = iter(jobs), Counter[str](), 0, 0.0
    while group := list(islice(waiting, _GROUP)):
        await session.copy("job", _COLUMNS, map(_values, group))
        count += len(group)
        now = group[-1].created_at
        for job in group:
            asked[job.model] += job.cost_tokens
    await _check(session, tenant, asked, count, limits)
    await check_kept(session, tenant, count * ROW_BYTES, limits.kept_bytes, now)


async def alone(session: Session, tenant: TenantId) -> None:
    """Let one transaction at a time compare the tenant's use with its bounds."""
    await session.run(_SQL["alone"], tenant)


async def note_act(session: Session, tenant: TenantId) -> None:
    """Count an act of a tenant's own; ``OverLimit`` after ``MOST_ACTS`` in ``ACTS_S``."""
    await alone(session, tenant)
    (lately,) = await session.rows(_SQL["acts"], tenant, ACTS_S, MOST_ACTS)
    if lately["acts"] >= MOST_ACTS:
        says = f"a tenant may pause, resume and replay {MOST_ACTS} times in {ACTS_S:.0f} s"
        raise OverLimit(says, retry_after_s=max(1.0, lately["wait_s"]), reason=TOO_MANY_ACTS)


async def check_kept(session: Session, tenant: TenantId, added: int, limit: int, now: float) -> None:
    """Compare what a tenant keeps with its bound: the ``added`` bytes are in the transaction already."""
    if not limit or (kept := await _kept(session, tenant, now)) <= limit:
        return
    if added > limit:
        says = f"this needs {added} bytes, {ROW_BYTES} of them a row, and this tenant may keep {limit}: send less"
        raise ExceedsLimit(says, reason="tenant_file_bytes")
    raise NoFileRoom(
        f"this tenant may keep {limit} bytes and keeps {kept - added}, this needs {added}: delete files, "
        "jobs or stored responses, or let them expire",
        reason="tenant_file_bytes",
    )


async def _kept(session: Session | Database, tenant: TenantId, now: float) -> int:
    (row,) = await session.rows(_SQL["kept"], tenant, now)
    return int(row["kept"])


async def _replay(
    session: Session, tenant: TenantId | None, jobs: Sequence[Job], as_of: tuple[float, KeyId], limits: EnqueueLimits
) -> None:
    if tenant is not None and as_of[1] != NO_KEY:
        await note_act(session, tenant)
    elif limits.jobs and tenant is not None:
        await alone(session, tenant)
    rows = await session.rows(_SQL["replay"], [job.id for job in jobs], *as_of, MOST_ATTEMPTS_KEPT)
    if len(rows) < len(jobs):
        raise Conflict("only a single job that failed or was cancelled, and whose request is still kept, runs again")
    if tenant is not None:
        asked = Counter[str]()
        for job in jobs:
            asked[job.model] += job.cost_tokens
        await _check(session, tenant, asked, len(jobs), limits)


async def _check(
    session: Session, tenant: TenantId, asked: Mapping[str, int], count: int, limits: EnqueueLimits
) -> None:
    """Compare the tenant's reservations with its limits: those include ``asked`` tokens by model, of ``count`` jobs."""
    if not count or not (limits.jobs or limits.tokens):
        return
    rows = await session.rows(_SQL["enqueued"], tenant)
    jobs = sum(row["jobs"] for row in rows)
    if limits.jobs and jobs > limits.jobs:
        raise _over(count, jobs - count, limits.jobs, "jobs")
    for row in rows:
        tokens = asked.get(row["model"], 0)
        if limits.tokens and tokens and row["tokens"] > limits.tokens:
            raise _over(tokens, row["tokens"] - tokens, limits.tokens, f"enqueued tokens for {row['model']}")


def _over(asked: int, held: int, limit: int, what: str) -> OverEnqueued | ExceedsLimit:
    says = f"{asked} of {limit} {what} asked for, {held} of them held by jobs that have not ended"
    return ExceedsLimit(says) if asked > limit else OverEnqueued(says)


async def cancel_lines(session: Session, batch: BatchId, now: float) -> None:
    await session.run(_SQL["cancel_batch"], batch, now)


async def pause(session: Session, scope: str, now: float) -> None:
    await session.run(_SQL["pause"], scope, now)


async def resume(session: Session, scope: str) -> None:
    await session.run(_SQL["resume"], scope)


def _values(job: NewJob) -> tuple[object, ...]:
    not_before = min(job.not_before, job.deadline_at)
    waits = not_before > job.created_at
    metadata = msgspec.json.encode(job.metadata).decode()
    return (
        *(job.name, job.tenant, job.key, job.batch, job.line, job.kind, job.api, job.model, job.version),
        *(job.cost_tokens, job.cost_micro_usd, Reason.NOT_BEFORE if waits else Reason.NONE, waits, job.max_attempts),
        *(not_before, job.deadline_at, job.created_at, job.keep_s, job.input.object, job.input.at, job.input.size),
        *(job.webhook, metadata, job.idempotency, job.fingerprint),
    )


def _end_values(end: End) -> tuple[object, ...]:
    return (
        *(end.id, end.epoch, end.state, end.at, end.reason, end.status, end.error, end.request),
        *(end.output.object, end.output.at, end.output.size, end.prompt_tokens, end.output_tokens),
    )


def _columns(rows: Iterable[tuple[object, ...]], width: int) -> list[list[object]]:
    columns = list(map(list, zip(*rows, strict=True)))
    return columns or [[] for _ in range(width)]


def _job(row: asyncpg.Record) -> Job:
    return Job(
        **{name: row[name] for name in _SAME},
        kind=JobKind(row["kind"]),
        api=Api(row["api"]),
        state=JobState(row["state"]),
        reason=Reason(row.get("seen_reason", row["reason"])),
        input=Extent(object=ObjectId(row["input_object"]), at=row["input_at"], size=row["input_bytes"]),
        output=Extent(object=ObjectId(row["output_object"]), at=row["output_at"], size=row["output_bytes"]),
        metadata={} if row["metadata"] == "{}" else _METADATA.decode(row["metadata"]),
    )
