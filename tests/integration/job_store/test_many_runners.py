"""Runners and tenants at once: nothing strands, nothing runs twice, budgets hold and no backlog is read."""

import asyncio
import json

import pytest

from penstock.connectors.postgres import roles
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import BatchId, JobId, JobName
from penstock.domain.jobs.job import End, EnqueueLimits, JobState, PutBack, Reason
from penstock.domain.money import MicroUsd
from tests.support.jobs.stores import ACME, PostgresWorld, new, quota
from tests.support.patience import patient
from tests.support.samples.ledger_rows import row

pytestmark = pytest.mark.integration
FREE = EnqueueLimits()
_READ = "select seq_tup_read + idx_tup_fetch as rows from pg_stat_xact_user_tables where relname = 'job'"


async def spend(database: Database, key: KeyId, cost: int) -> None:
    """Bill acme as a gateway does, on the first day."""
    await PostgresLedger(database).append([row("r", at=60.0, cost=cost, tenant=ACME, key=key)])


async def test_no_job_strands_while_lanes_close_and_open(database: Database) -> None:
    """Tenants submit one by one while runners empty their lanes: each job is claimed once (the trap of do nothing)."""
    world, number, ran = PostgresWorld(database), 600, list[JobId]()
    tenants = [TenantId(f"t{n}") for n in range(5)]

    async def submit(mine: int) -> None:
        for n in range(mine, number, 3):
            await world.store.submit(new(f"job_{n}", tenant=tenants[n % 5]), FREE)

    async def run() -> None:
        store, me = PostgresJobs(database), await world.runner()
        while len(ran) < number:
            jobs = await store.claim(me, quota(4), 1.0)
            ran.extend(job.id for job in jobs)
            await store.finish([End(id=job.id, epoch=job.epoch, state=JobState.SUCCEEDED, at=2.0) for job in jobs])
            await asyncio.sleep(0)

    async with asyncio.timeout(patient(30)):
        await asyncio.gather(*(submit(n) for n in range(3)), *(run() for _ in range(3)))
    assert len(ran) == len(set(ran)) == number
    assert await world.is_consistent()


async def test_a_lost_lane_is_found_again(database: Database) -> None:
    """The sweep brings back the flow and the lane of a queued job, if ever one has none."""
    world = PostgresWorld(database)
    me = await world.runner()
    await world.queue([new(f"line_{n}", batch=BatchId("b"), line=n) for n in range(3)], FREE)
    await world.store.submit(new("later", not_before=50.0), FREE)
    await database.rows("truncate job_flow, job_lane")
    assert await world.store.claim(me, quota(9), 1.0) == ()
    await world.store.tidy(2.0)
    assert len(await world.store.claim(me, quota(9), 3.0)) == 3
    assert [job.name for job in await world.store.claim(me, quota(9), 60.0)] == ["later"]
    assert await world.is_consistent()


async def test_an_empty_budget_parks_jobs_until_it_is_filled(database: Database) -> None:
    """What the ledger has and what runs count against tenant, key and organisation; the job says what it waits for."""
    world = PostgresWorld(database)
    me = await world.runner()
    await world.plan(ACME, json.dumps({"spend_per_day": 1000}))
    jobs = [new(f"job_{n}", cost_micro_usd=MicroUsd(400)) for n in range(4)]
    await world.queue(jobs, FREE)
    held = await world.store.claim(me, quota(4), 1.0)
    assert len(held) == 2
    assert await world.store.claim(me, quota(4), 1.5) == ()
    await spend(database, KeyId("key"), 1000)
    ends = [End(id=job.id, epoch=job.epoch, state=JobState.SUCCEEDED, at=2.0) for job in held]
    assert len(await world.store.finish(ends)) == 2
    assert await world.store.claim(me, quota(4), 3.0) == ()
    waiting = await world.store.find(ACME, jobs[3].name, 3.5)
    assert waiting is not None
    assert (waiting.state, waiting.reason) == (JobState.QUEUED, Reason.BUDGET)
    await world.plan(ACME, json.dumps({"spend_per_day": 1500}))
    assert len(await world.store.claim(me, quota(4), 14.0)) == 1


async def test_a_window_that_turns_lets_jobs_go_on_and_a_deadline_ends_them(database: Database) -> None:
    """The next day's budget is another; a job whose deadline comes first ends by it."""
    world = PostgresWorld(database)
    me = await world.runner()
    await world.plan(ACME, json.dumps({"spend_per_day": 100}))
    await spend(database, KeyId("key"), 100)
    await world.store.submit(new("patient", deadline_at=90_000.0), FREE)
    await world.store.submit(new("late", deadline_at=20.0), FREE)
    assert await world.store.claim(me, quota(4), 1.0) == ()
    assert await world.store.tidy(21.0) == 1
    assert await world.store.claim(me, quota(4), 86_399.0) == ()
    assert [job.name for job in await world.store.claim(me, quota(4), 86_410.0)] == ["patient"]


async def test_a_budget_of_a_key_or_organisation_parks_what_is_theirs(database: Database) -> None:
    """Another key's jobs go on; an organisation's budget counts all of its tenants."""
    world = PostgresWorld(database)
    me = await world.runner()
    await world.plan(ACME, "{}")
    await database.rows(
        "insert into api_key (id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at, plan)"
        " values ('poor', 'acme', repeat('0', 64), 'infer', '[]', 0, 0, 0, $1::jsonb)",
        json.dumps({"spend_per_month": 10}),
    )
    await spend(database, KeyId("poor"), 10)
    await world.store.submit(new("poor", key=KeyId("poor"), deadline_at=10.0), FREE)
    await world.store.submit(new("rich"), FREE)
    assert [job.name for job in await world.store.claim(me, quota(4), 1.0)] == ["rich"]
    await database.rows("update org set plan = $1::jsonb where id = 'default'", json.dumps({"spend_per_month": 5}))
    await world.store.submit(new("ours"), FREE)
    assert await world.store.claim(me, quota(4), 2.0) == ()


async def test_without_redis_runners_overshoot_a_budget_by_one_job_at_most(database: Database) -> None:
    """Eight runners claim at once: what is held stays within the cap, but for one job if nothing else runs."""
    world = PostgresWorld(database)
    await world.plan(ACME, json.dumps({"spend_per_day": 1000}))
    await world.queue([new(f"job_{n}", cost_micro_usd=MicroUsd(90)) for n in range(60)], FREE)
    runners = [await world.runner() for _ in range(8)]
    stores = [PostgresJobs(database) for _ in runners]
    for now in range(1, 40, 2):
        await asyncio.gather(
            *(store.claim(me, quota(3), float(now)) for store, me in zip(stores, runners, strict=True))
        )
    (runs,) = await database.rows("select sum(cost_micro_usd) as held from job where state = 'running'")
    assert 900 <= runs["held"] <= 1000


async def test_a_job_dearer_than_the_budgets_rest_runs_alone(database: Database) -> None:
    """Its upper bound is more than its pipeline reserves: one at a time may try."""
    world = PostgresWorld(database)
    me = await world.runner()
    await world.plan(ACME, json.dumps({"spend_per_day": 100}))
    await world.queue([new(f"job_{n}", cost_micro_usd=MicroUsd(5000)) for n in range(3)], FREE)
    assert len(await world.store.claim(me, quota(3), 1.0)) == 1
    assert await world.store.claim(me, quota(3), 2.5) == ()


async def test_a_claim_reads_no_backlog(database: Database) -> None:
    """Among thousands of paused, waiting, late and other tenants' jobs a claim reads a handful of rows."""
    world = PostgresWorld(database)
    me = await world.runner()
    for batch, values in (("paused", {}), ("waiting", {"not_before": 500.0}), ("other", {"tenant": TenantId("beta")})):
        lines = [new(f"{batch}_{n}", batch=BatchId(batch), line=n, deadline_at=900.0, **values) for n in range(3000)]
        await world.queue(lines, FREE)
    await world.store.submit(new("mine"), FREE)
    await world.store.pause("batch:paused", 1.0)
    async with database.transaction() as session:
        claim = "select name from job_claim($1, $2, $3, $4::jsonb, $5)"
        claimed = await session.rows(claim, me, ["m@1"], [4], json.dumps([["beta"]]), 2.0)
        (read,) = await session.rows(_READ)
    assert [one["name"] for one in claimed] == ["mine"]
    assert read["rows"] < 30


async def test_functions_that_forbid_plans_are_not_compiled(database: Database) -> None:
    """Before Postgres 18 a forbidden step counts as much as a day's work, and each claim was compiled for seconds."""
    rows = await database.rows(
        "select proname, 'jit=off' = any(proconfig) as is_plain from pg_proc where exists ("
        " select from unnest(proconfig) as setting where setting like 'enable\\_%=off')"
    )
    assert {"job_claim", "job_mend", "job_take_over"} <= {row["proname"] for row in rows}
    assert [row["proname"] for row in rows if not row["is_plain"]] == []


async def test_a_claim_reads_few_of_many_tenants(database: Database) -> None:
    """The least served come first in an index: how many others wait is no part of what a claim costs."""
    world = PostgresWorld(database)
    me = await world.runner()
    await world.queue([new(f"job_{n}", tenant=TenantId(f"t{n}")) for n in range(1000)], FREE)
    async with database.transaction() as session:
        claimed = await session.rows("select name from job_claim($1, $2, $3, '[[]]', 2.0)", me, ["m@1"], [4])
        (read,) = await session.rows(_READ.replace("'job'", "'job_flow'"))
    assert len(claimed) == 4
    assert read["rows"] < 60


async def test_the_oldest_transaction_is_seen(database: Database) -> None:
    """By runners' own role, whoever has it open; without one there is none."""
    await roles.grant(database, {})
    assert (await PostgresWorld(database).store.shape()).oldest_transaction_s < 0.5
    async with database.transaction() as other, database.transaction() as session:
        await other.rows("select pg_sleep(0.6)")
        await session.run("set local role penstock_runner")
        (row,) = await session.rows("select oldest_transaction_s() as age")
    assert row["age"] >= 0.6


async def test_each_end_of_a_single_job_is_told_once(database: Database) -> None:
    """Whatever ends it: an answer, a cancel, a deadline, a dead letter; a batch's lines tell nothing."""
    world = PostgresWorld(database)
    me = await world.runner()
    await database.rows(
        "insert into webhook_endpoint (id, tenant, url, events, secret, created_at)"
        " values ('we_1', $1, 'https://a.example', '{*}', '', 0)",
        ACME,
    )
    for name in ("succeeded", "dead", "cancelled"):
        await world.store.submit(new(name, max_attempts=1), FREE)
    await world.store.submit(new("late", deadline_at=5.0), FREE)
    await world.queue([new("line", batch=BatchId("b"), line=0)], FREE)
    await world.store.cancel(ACME, JobName("cancelled"), 1.0)
    await world.store.tidy(6.0)
    for job in await world.store.claim(me, quota(9), 7.0):
        if job.name == "dead":
            end = PutBack(
                id=job.id, epoch=1, at=8.0, not_before=0.0, reason=Reason.BACKOFF, may_have_run=True, error="x"
            )
            await world.store.put_back([end])
        else:
            await world.store.finish([End(id=job.id, epoch=1, state=JobState.SUCCEEDED, at=8.0)])
    told = await database.rows("select type, object from webhook_event order by object")
    assert [tuple(one) for one in told] == [
        ("job.cancelled", "cancelled"),
        ("job.failed", "dead"),
        ("job.failed", "late"),
        ("job.succeeded", "succeeded"),
    ]
