"""Runners' lives: who is dead is found by its lock within two seconds, by its heartbeat otherwise, and is fenced."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.runners import LEASE_S, PostgresRunnerLife, PostgresRunners
from penstock.domain.clock import HeardClock, SystemClock
from penstock.domain.jobs.job import End, EnqueueLimits, JobState, TakenOver
from tests.support.clock import ManualClock
from tests.support.jobs.stores import ACME, new, queue, quota
from tests.support.patience import patient

pytestmark = pytest.mark.integration
FREE = EnqueueLimits()
NOBODY = TakenOver()


@pytest.fixture
async def lives(database_dsn: str) -> AsyncIterator[tuple[PostgresRunnerLife, PostgresRunnerLife]]:
    first, second = [PostgresRunnerLife(database_dsn, name, HeardClock()) for name in ("first", "second")]
    yield first, second
    for life in (first, second):
        await life.resign()


async def _cut(database: Database, name: str) -> None:
    """End a runner's connection from outside, as its process's death does."""
    await database.rows("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", name)


async def _until_taken(runners: PostgresRunners, me: int, now: float) -> tuple[TakenOver, float]:
    """Look twice a second, as a runner does; return what was found, and after which time."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    while True:
        taken = await runners.take_over(me, now)  # type: ignore[arg-type]
        if taken.runners or loop.time() - begin > patient(10.0):
            return taken, loop.time() - begin
        await asyncio.sleep(0.25)


async def test_a_dead_runners_jobs_are_queued_again_within_two_seconds(
    database: Database, lives: tuple[PostgresRunnerLife, PostgresRunnerLife]
) -> None:
    """Its lock ends with its connection; a living runner's stays, however often one looks."""
    jobs, (first, second) = PostgresJobs(database), lives
    dead, me = await first.confirm(), await second.confirm()
    await jobs.submit(new("job_1"), FREE)
    (job,) = await jobs.claim(dead, quota(1), 1.0)
    runners = PostgresRunners(database, SystemClock())
    for _ in range(4):
        assert await runners.take_over(me, 1.0) == NOBODY
        await asyncio.sleep(0.2)
    await _cut(database, "first")
    taken, after_s = await _until_taken(runners, me, 2.0)
    assert (taken.runners, taken.requeued) == ((dead,), 1)
    assert after_s <= patient(2.0)
    (again,) = await jobs.claim(me, quota(1), 3.0)
    assert (again.id, again.attempt, again.epoch) == (job.id, 2, 2)


async def test_a_frozen_runner_comes_back_as_another_and_is_fenced(
    database: Database, lives: tuple[PostgresRunnerLife, PostgresRunnerLife]
) -> None:
    """Its connection keeps the lock, so its heartbeat tells; back again it claims nothing and ends nothing."""
    jobs, (first, second) = PostgresJobs(database), lives
    frozen, me = await first.confirm(), await second.confirm()
    await jobs.submit(new("job_1"), FREE)
    (held,) = await jobs.claim(frozen, quota(1), 1.0)
    await database.rows("update runner set seen_at = seen_at - $2 where id = $1", frozen, LEASE_S + 1)
    taken = await PostgresRunners(database, SystemClock()).take_over(me, 2.0)
    assert (taken.runners, taken.requeued) == ((frozen,), 1)
    assert await jobs.claim(frozen, quota(1), 3.0) == ()
    (again,) = await jobs.claim(me, quota(1), 3.0)
    end = End(id=held.id, epoch=held.epoch, state=JobState.SUCCEEDED, at=4.0)
    assert await jobs.finish([end]) == frozenset()
    back = await first.confirm()
    assert back not in (frozen, me)
    found = await jobs.find(ACME, again.name, 4.0)
    assert found is not None
    assert (found.state, found.runner) == (JobState.RUNNING, me)


async def test_a_runner_whose_connection_was_cut_goes_on_as_itself(
    database: Database, lives: tuple[PostgresRunnerLife, PostgresRunnerLife]
) -> None:
    """After a break of its connection that is shorter than a look it takes its lock again: nothing is lost."""
    first, second = lives
    before, me = await first.confirm(), await second.confirm()
    runners = PostgresRunners(database, SystemClock())
    await _cut(database, "first")
    assert await runners.take_over(me, 1.0) == NOBODY
    try:
        after = await first.confirm()
    except Exception:  # noqa: BLE001  the cut may be met by this call
        after = await first.confirm()
    assert after == before
    await asyncio.sleep(0.7)
    assert await runners.take_over(me, 1.0) == NOBODY


async def test_two_that_look_take_over_once(
    database: Database, lives: tuple[PostgresRunnerLife, PostgresRunnerLife]
) -> None:
    """The jobs of a dead runner are queued by one of them, each once."""
    jobs, (first, _) = PostgresJobs(database), lives
    dead = await first.confirm()
    await queue(database, [new(f"job_{n}") for n in range(20)], FREE)
    await jobs.claim(dead, quota(20), 1.0)
    await database.rows("update runner set seen_at = 0 where id = $1", dead)
    found = await asyncio.gather(
        *(PostgresRunners(database, SystemClock()).take_over(dead + 1000, 2.0) for _ in range(4))  # type: ignore[arg-type]
    )
    assert sorted(one.requeued for one in found) == [0, 0, 0, 20]


async def test_a_runner_that_resigns_leaves_no_row(database: Database, database_dsn: str) -> None:
    """Without jobs there is nothing to take over."""
    life = PostgresRunnerLife(database_dsn, "third", HeardClock())
    await life.confirm()
    await life.resign()
    assert await database.rows("select id from runner") == []


@pytest.mark.parametrize("ahead_s", [90.0, -90.0])
async def test_a_runner_takes_the_databases_time_of_day(database: Database, database_dsn: str, ahead_s: float) -> None:
    """Its machine's clock may be off, or jump: each confirmation brings the database's."""
    own = ManualClock(time.time() + ahead_s)
    clock = HeardClock(own)
    life = PostgresRunnerLife(database_dsn, "wrong", clock)
    for _ in range(2):
        await life.confirm()
        (row,) = await database.rows("select extract(epoch from clock_timestamp())::double precision as at")
        assert clock.now() == pytest.approx(row["at"], abs=patient(1.0))
        own.epoch_s += ahead_s
    await life.resign()


async def test_an_answer_that_was_read_late_sets_no_clock() -> None:
    """A process that stood still reads an old time of day; its monotonic clock went on."""
    own = ManualClock()
    clock = HeardClock(own)
    clock.hear(1000.0, own.monotonic())
    own.advance(30.0)
    clock.hear(1001.0, own.monotonic() - 30.0)
    assert clock.now() == 1030.0
