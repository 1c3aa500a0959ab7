"""Stores of jobs for tests, in memory and in Postgres, with what a test does to the world around them."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Any, Protocol

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs, enqueue
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId
from penstock.domain.jobs.ids import BatchId, JobName, ObjectId, RunnerId
from penstock.domain.jobs.job import (
    ClaimQuota,
    End,
    EnqueueLimits,
    Job,
    JobKind,
    JobState,
    NewJob,
    PutBack,
    Reason,
    TakenOver,
)
from penstock.domain.jobs.payload import Extent
from penstock.domain.serving.request import Api
from penstock.jobs.ports import JobStore
from tests.twins.job_rows import Enqueued
from tests.twins.jobs import MemoryJobs

VERSION = VersionId("m@1")
ACME, BETA = TenantId("acme"), TenantId("beta")
BATCH = BatchId("batch_1")
FREE = EnqueueLimits()


def new(name: str, **values: Any) -> NewJob:  # noqa: ANN401  fields of a job
    """Return a job of 100 tokens of acme, submitted at 0, due at 1000."""
    usual: dict[str, Any] = {
        "name": JobName(name),
        "tenant": ACME,
        "key": KeyId("key"),
        "kind": JobKind.LINE if values.get("batch") else JobKind.JOB,
        "api": Api.CHAT,
        "model": Alias("chat"),
        "version": VERSION,
        "cost_tokens": 100,
        "created_at": 0.0,
        "deadline_at": 1000.0,
        "keep_s": 3600.0,
        "input": Extent(object=ObjectId(f"jobs/{name}/input"), size=7),
    }
    return NewJob(**{**usual, **values})


def ended(job: Job, state: JobState = JobState.SUCCEEDED, **values: Any) -> End:  # noqa: ANN401  fields of an end
    return End(**{"id": job.id, "epoch": job.epoch, "state": state, "at": 9.0, **values})


def back(job: Job, **values: Any) -> PutBack:  # noqa: ANN401  fields of a put-back
    usual = {"id": job.id, "epoch": job.epoch, "at": 9.0, "not_before": 0.0, "reason": Reason.BACKOFF}
    return PutBack(**{**usual, "may_have_run": True, **values})


async def lines(world: "World", number: int, **values: Any) -> None:  # noqa: ANN401  fields of a job
    batch = values.setdefault("batch", BATCH)
    await world.queue([new(f"{batch}_{line}", line=line, **values) for line in range(number)], FREE)


def quota(jobs: int, *closed: TenantId) -> list[ClaimQuota]:
    return [ClaimQuota(version=VERSION, jobs=jobs, closed=frozenset(closed))]


async def queue(database: Database, jobs: Sequence[NewJob], limits: EnqueueLimits = FREE) -> None:
    """Store all jobs of one tenant or none, as a batch's lines are."""
    async with database.transaction() as session:
        await enqueue(session, jobs[0].tenant, jobs, limits)


class World(Protocol):
    """A store, and what others do to it."""

    @property
    def store(self) -> JobStore: ...

    async def queue(self, jobs: Sequence[NewJob], limits: EnqueueLimits = FREE) -> None: ...

    async def enqueued(self, tenant: TenantId) -> Mapping[Alias, Enqueued]: ...

    async def runner(self) -> RunnerId: ...

    async def lose(self, runner: RunnerId, now: float) -> TakenOver: ...

    async def weigh(self, tenant: TenantId, weight: int) -> None: ...

    async def revoke(self, key: KeyId) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.store = MemoryJobs()
        self._runners = count(1)
        self.queue, self.enqueued = self.store.queue, self.store.enqueued

    async def runner(self) -> RunnerId:
        runner = RunnerId(next(self._runners))
        self.store.runners.add(runner)
        return runner

    async def lose(self, runner: RunnerId, now: float) -> TakenOver:
        return await self.store.lose(runner, now)

    async def weigh(self, tenant: TenantId, weight: int) -> None:
        self.store.weights[tenant] = weight

    async def revoke(self, key: KeyId) -> None:
        self.store.revoked.add(key)


class PostgresWorld:
    def __init__(self, database: Database) -> None:
        self.database, self.store = database, PostgresJobs(database)

    async def queue(self, jobs: Sequence[NewJob], limits: EnqueueLimits = FREE) -> None:
        await queue(self.database, jobs, limits)

    async def enqueued(self, tenant: TenantId) -> Mapping[Alias, Enqueued]:
        rows = await self.database.rows(
            "select model, tokens, jobs from job_enqueued where tenant = $1 and jobs > 0", tenant
        )
        return {Alias(row["model"]): Enqueued(tokens=row["tokens"], jobs=row["jobs"]) for row in rows}

    async def runner(self) -> RunnerId:
        (row,) = await self.database.rows(
            "insert into runner (name, started_at, seen_at) values ('r', 0, 0) returning id"
        )
        return RunnerId(row["id"])

    async def lose(self, runner: RunnerId, now: float) -> TakenOver:
        rows = await self.database.rows("select state, jobs from job_take_over($1, $2)", runner, now)
        jobs = {JobState(row["state"]): row["jobs"] for row in rows}
        return TakenOver(
            runners=(runner,),
            requeued=jobs.get(JobState.QUEUED, 0),
            dead_letters=jobs.get(JobState.FAILED, 0),
            cancelled=jobs.get(JobState.CANCELLED, 0),
        )

    async def weigh(self, tenant: TenantId, weight: int) -> None:
        await self.plan(tenant, f'{{"weight": {weight}}}')

    async def plan(self, tenant: TenantId, plan: str) -> None:
        await self.database.rows(
            "insert into tenant (id, name, plan, created_at) values ($1, $1, $2::jsonb, 0)"
            " on conflict (id) do update set plan = excluded.plan",
            tenant,
            plan,
        )

    async def revoke(self, key: KeyId) -> None:
        await self.database.rows(
            "insert into tenant (id, name, plan, created_at) values ('keys', 'keys', '{}', 0) on conflict do nothing"
        )
        await self.database.rows(
            "insert into api_key (id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at, plan)"
            " values ($1, 'keys', $2, 'infer', '[]', 0, 0, 1, '{}') on conflict do nothing",
            key,
            sha256(key.encode()).hexdigest(),
        )

    async def empty(self) -> None:
        """Forget all jobs, for the next example in the same database."""
        await self.database.rows(
            "truncate job, job_attempt, job_flow, job_lane, job_pause, job_act, job_enqueued, runner"
            " restart identity cascade"
        )
        await self.database.rows("delete from api_key")
        self.store = PostgresJobs(self.database)

    async def is_consistent(self) -> bool:
        """Tell whether reservations and kept bytes are sums over rows, and every queued job is in its lane and flow."""
        (row,) = await self.database.rows(
            """
            with reserved as (
                select tenant, model, sum(cost_tokens)::bigint as tokens, count(*) as jobs from job
                where state in ('queued', 'running') group by tenant, model
            ), kept as (
                select tenant, sum(bytes)::bigint as bytes from (
                    select tenant, 1022 + length(metadata) + output_bytes
                                   + case batch when '' then input_bytes else 0 end as bytes from job
                    union all select tenant, 1024 + bytes from file where deleted_at = 0
                    union all select tenant, 1024 + length(metadata::text) + length(faults::text) from batch
                    union all select tenant, 1024 + begin_bytes + event_bytes
                                     + case when is_background then 0 else input_bytes + body_bytes end
                              from stored_response) as one
                group by tenant
            )
            select not exists (
                select from reserved full join job_enqueued using (tenant, model)
                where coalesce(reserved.tokens, 0) <> coalesce(job_enqueued.tokens, 0)
                   or coalesce(reserved.jobs, 0) <> coalesce(job_enqueued.jobs, 0)
            ) and not exists (
                select from job left join job_lane as lane using (version, tenant, batch, key)
                left join job_flow as flow using (version, tenant)
                where job.state = 'queued' and (lane.version is null or lane.deadline_at > job.deadline_at
                   or (job.waits and lane.due_at > job.not_before)
                   or (not job.waits and not (lane.is_ready and flow.is_active)))
            ) and not exists (
                select from kept full join (
                    select tenant, sum(kept_bytes)::bigint as sum from job_enqueued group by tenant) as noted
                using (tenant)
                where coalesce(bytes, 0) <> coalesce(sum, 0)
            ) as ok
            """
        )
        return bool(row["ok"])
