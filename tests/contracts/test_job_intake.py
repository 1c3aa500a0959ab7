"""What tenants are promised of their jobs, held against memory and a real Postgres."""

import asyncio
from typing import Any

import pytest

from penstock.domain.errors import Conflict, ExceedsLimit, IdempotencyMismatch
from penstock.domain.ids import Alias, KeyId
from penstock.domain.jobs.errors import NoFileRoom, OverEnqueued
from penstock.domain.jobs.ids import JobName, ObjectId
from penstock.domain.jobs.job import (
    EnqueueLimits,
    JobFilter,
    JobState,
    Reason,
)
from penstock.domain.jobs.payload import ROW_BYTES, Extent
from tests.support.jobs.stores import (
    ACME,
    BATCH,
    BETA,
    FREE,
    PostgresWorld,
    World,
    back,
    ended,
    lines,
    new,
    quota,
)

pytestmark = pytest.mark.usefixtures("consistent")


async def test_another_tenants_job_is_not_there(world: World) -> None:
    """It is neither found, listed, cancelled, replayed nor deleted."""
    await world.store.submit(new("job_1"), FREE)
    name = JobName("job_1")
    assert await world.store.find(BETA, name, 1.0) is None
    assert await world.store.cancel(BETA, name, 1.0) is None
    assert await world.store.replay(BETA, name, 1.0, FREE) is None
    assert await world.store.delete(BETA, name, 1.0) is None
    assert await world.store.page(BETA, JobFilter(), 1.0, limit=9) == ()
    found = await world.store.find(ACME, name, 1.0)
    assert found is not None
    assert found.state is JobState.QUEUED


async def test_a_repeated_submit_makes_one_job(world: World) -> None:
    """One key and body make one job, also for two at once; another body is refused."""
    same = {"idempotency": "jobs:k", "fingerprint": "f"}
    both = await asyncio.gather(*(world.store.submit(new(f"job_{n}", **same), FREE) for n in range(2)))
    assert sorted(one.is_new for one in both) == [False, True]
    assert both[0].job.id == both[1].job.id
    with pytest.raises(IdempotencyMismatch):
        await world.store.submit(new("job_3", idempotency="jobs:k", fingerprint="g"), FREE)
    assert (await world.store.submit(new("job_4", tenant=BETA, **same), FREE)).is_new
    keyed = await world.store.keyed(ACME, "jobs:k")
    assert keyed is not None
    assert keyed.id == both[0].job.id
    assert await world.store.keyed(ACME, "jobs:other") is None
    assert (await world.enqueued(ACME))[Alias("chat")].jobs == 1


async def test_limits_are_reserved_at_submit_and_released_at_every_end(world: World) -> None:
    """Finish, cancel, deadline and dead letter each free what the job reserved; a refused submit reserves nothing."""
    limits, runner = EnqueueLimits(tokens=250, jobs=2), await world.runner()

    async def fill(name: str, **values: Any) -> None:  # noqa: ANN401  fields of a job
        await world.store.submit(new(f"{name}_1", max_attempts=1, **values), limits)
        await world.store.submit(new(f"{name}_2", max_attempts=1, **values), limits)
        with pytest.raises(OverEnqueued):
            await world.store.submit(new(f"{name}_3"), limits)

    with pytest.raises(ExceedsLimit):
        await world.store.submit(new("huge", cost_tokens=251), limits)
    await fill("done")
    await world.store.finish([ended(job) for job in await world.store.claim(runner, quota(9), 1.0)])
    await fill("cancelled")
    await world.store.cancel(ACME, JobName("cancelled_1"), 1.0)
    await world.store.cancel(ACME, JobName("cancelled_2"), 1.0)
    await fill("late", deadline_at=2.0)
    assert await world.store.tidy(2.0) == 2
    await fill("dead")
    await world.store.put_back([back(job) for job in await world.store.claim(runner, quota(9), 1.0)])
    await fill("lost")
    await world.store.claim(runner, quota(9), 1.0)
    assert (await world.lose(runner, 2.0)).dead_letters == 2
    assert await world.enqueued(ACME) == {}


async def test_a_batch_beyond_the_limit_is_not_there_at_all(world: World) -> None:
    """All of its lines or none; twice the same line is a conflict."""
    jobs = [new(f"line_{n}", batch=BATCH, line=n) for n in range(3)]
    await world.store.submit(new("job_0"), FREE)
    with pytest.raises(OverEnqueued):
        await world.queue(jobs, EnqueueLimits(jobs=3))
    assert (await world.enqueued(ACME))[Alias("chat")].jobs == 1
    await world.queue(jobs, FREE)
    with pytest.raises(Conflict):
        await world.queue([new("line_9", batch=BATCH, line=2)], FREE)
    assert (await world.enqueued(ACME))[Alias("chat")].jobs == 4


async def test_replay_runs_a_failed_job_again(world: World) -> None:
    """With all attempts, its whole time and a new epoch; what has not failed is a conflict, and limits hold."""
    runner = await world.runner()
    await world.store.submit(new("job_1", max_attempts=1, deadline_at=100.0), FREE)
    (job,) = await world.store.claim(runner, quota(1), 1.0)
    with pytest.raises(Conflict):
        await world.store.replay(ACME, job.name, 2.0, FREE)
    await world.store.put_back([back(job)])
    await world.store.submit(new("job_2"), FREE)
    with pytest.raises(OverEnqueued):
        await world.store.replay(ACME, job.name, 20.0, EnqueueLimits(jobs=1))
    again = await world.store.replay(ACME, job.name, 20.0, FREE)
    assert again is not None
    assert (again.state, again.attempt, again.deadline_at, again.epoch) == (JobState.QUEUED, 0, 120.0, 2)
    assert await world.store.finish([ended(job)]) == frozenset()
    claimed = await world.store.claim(runner, quota(2), 21.0)
    assert [(one.name, one.epoch) for one in claimed] == [("job_1", 3), ("job_2", 1)]


async def test_a_replay_is_a_new_submit_that_keeps_a_start_still_ahead(world: World) -> None:
    """Its time counts from now; a start that has come, or that an attempt's backoff left behind, is forgotten."""
    runner = await world.runner()
    await world.store.submit(new("ahead", not_before=50.0, deadline_at=100.0), FREE)
    await world.store.cancel(ACME, JobName("ahead"), 1.0)
    await world.store.submit(new("failed", max_attempts=1, deadline_at=100.0), FREE)
    (job,) = await world.store.claim(runner, quota(2), 2.0)
    await world.store.put_back([back(job)])
    again = [await world.store.replay(ACME, JobName(name), 30.0, FREE) for name in ("ahead", "failed")]
    told = [(one.created_at, one.not_before, one.deadline_at, one.reason) for one in again if one]
    assert told == [(30.0, 50.0, 130.0, Reason.NOT_BEFORE), (30.0, 0.0, 130.0, Reason.NONE)]
    assert [one.name for one in await world.store.claim(runner, quota(2), 49.0)] == ["failed"]
    assert [one.name for one in await world.store.claim(runner, quota(2), 51.0)] == ["ahead"]


async def test_replay_by_filter_takes_what_failed_so(world: World) -> None:
    """Only failed jobs of the tenant that match; without a tenant, of all."""
    runner = await world.runner()
    for name, tenant in (("a", ACME), ("b", ACME), ("c", BETA), ("fine", ACME)):
        await world.store.submit(new(name, tenant=tenant, max_attempts=1), FREE)
    jobs = {str(job.name): job for job in await world.store.claim(runner, quota(9), 1.0)}
    errors = {"a": "engine_error", "b": "worker_lost", "c": "engine_error"}
    await world.store.put_back([back(jobs[name], error=error) for name, error in errors.items()])
    await world.store.finish([ended(jobs["fine"])])
    which = JobFilter(reason=Reason.DEAD_LETTER, error="engine_error")
    assert [job.name for job in await world.store.page(None, which, 10.0, limit=9)] == ["c", "a"]
    assert await world.store.replay_all(ACME, which, 10.0, FREE) == 1
    assert await world.store.replay_all(None, which, 10.0, FREE) == 1
    assert await world.store.replay_all(None, which, 10.0, FREE) == 0
    assert {str(job.name) for job in await world.store.claim(runner, quota(9), 11.0)} == {"a", "c"}


async def test_pages_go_on_after_a_job(world: World) -> None:
    """Newest or oldest first, of one state, without lines of batches."""
    await lines(world, 2)
    for number in range(5):
        await world.store.submit(new(f"job_{number}"), FREE)
    await world.store.cancel(ACME, JobName("job_1"), 1.0)

    async def names(**how: Any) -> list[str]:  # noqa: ANN401  a page's arguments
        which = JobFilter(state=how.pop("state", None))
        return [str(job.name) for job in await world.store.page(ACME, which, 2.0, **how)]

    assert await names(limit=2) == ["job_4", "job_3"]
    assert await names(limit=9, after=JobName("job_3")) == ["job_2", "job_1", "job_0"]
    assert await names(limit=9, after=JobName("job_3"), newest_first=False) == ["job_4"]
    assert await names(limit=9, state=JobState.CANCELLED) == ["job_1"]


async def test_a_deleted_job_is_found_no_more_and_then_forgotten(world: World) -> None:
    """An open one is a conflict; rows stay until their payloads are gone."""
    await world.store.submit(new("job_1", idempotency="k"), FREE)
    with pytest.raises(Conflict):
        await world.store.delete(ACME, JobName("job_1"), 1.0)
    await world.store.cancel(ACME, JobName("job_1"), 1.0)
    assert await world.store.expired(2.0, 9) == ()
    deleted = await world.store.delete(ACME, JobName("job_1"), 2.0)
    assert deleted is not None
    assert await world.store.find(ACME, JobName("job_1"), 2.0) is None
    assert await world.store.page(ACME, JobFilter(), 2.0, limit=9) == ()
    assert [job.id for job in await world.store.expired(2.0, 9)] == [deleted.id]
    await world.store.forget([deleted.id])
    assert await world.store.expired(2.0, 9) == ()
    assert (await world.store.submit(new("job_1", idempotency="k"), FREE)).is_new


async def test_a_replay_is_an_order_of_its_key(world: World) -> None:
    """The job runs under the key that replays it; by filter only what that key may use comes back."""
    runner = await world.runner()
    for name, model in (("one", "chat"), ("two", "chat"), ("other", "embed")):
        await world.store.submit(new(name, model=Alias(model)), FREE)
    claimed = await world.store.claim(runner, quota(3), 1.0)
    await world.store.finish([ended(job, JobState.FAILED, reason=Reason.DEAD_LETTER) for job in claimed])
    replayed = await world.store.replay(ACME, JobName("one"), 10.0, FREE, KeyId("mine"))
    assert replayed is not None
    assert (replayed.key, replayed.state) == ("mine", JobState.QUEUED)
    failed = JobFilter(state=JobState.FAILED, usable=(Alias("chat"),))
    assert await world.store.replay_all(ACME, failed, 10.0, FREE, KeyId("mine")) == 1
    keys = {name: (await world.store.find(ACME, JobName(name), 11.0)) for name in ("two", "other")}
    assert {name: (job.key, job.state) for name, job in keys.items() if job is not None} == {
        "two": ("mine", JobState.QUEUED),
        "other": ("key", JobState.FAILED),
    }


async def test_a_deleted_job_frees_its_idempotency_key(world: World) -> None:
    """A repeated submit makes a new job: the old one is gone for its tenant."""
    runner = await world.runner()
    await world.store.submit(new("one", idempotency="k", fingerprint="p"), FREE)
    (claimed,) = await world.store.claim(runner, quota(1), 1.0)
    await world.store.finish([ended(claimed)])
    assert await world.store.delete(ACME, JobName("one"), 20.0) is not None
    assert await world.store.keyed(ACME, "k") is None
    again = await world.store.submit(new("two", idempotency="k", fingerprint="p", created_at=21.0), FREE)
    assert (again.job.name, again.is_new) == ("two", True)


async def test_ended_jobs_count_until_they_are_forgotten(world: World) -> None:
    """Rows, requests, answers and metadata are bounded together; a refused submit and a refused batch leave nothing."""
    limits, runner = EnqueueLimits(kept_bytes=3 * ROW_BYTES), await world.runner()
    await world.store.submit(new("one", metadata={"a": "b"}), limits)
    kept = ROW_BYTES + 7 + len('"a":"b"')
    assert await world.store.kept(ACME, 1.0) == kept
    (job,) = await world.store.claim(runner, quota(1), 1.0)
    await world.store.finish([ended(job, output=Extent(object=ObjectId("a"), size=1000))])
    assert await world.store.kept(ACME, 1.0) == kept + 1000
    for size, error in ((ROW_BYTES, NoFileRoom), (3 * ROW_BYTES, ExceedsLimit)):
        with pytest.raises(error) as refused:
            await world.store.submit(new("two", input=Extent(object=ObjectId("b"), size=size)), limits)
        if isinstance(world, PostgresWorld):
            assert (refused.value.reason, "3072" in refused.value.message) == ("tenant_file_bytes", True)
    for number, error in ((2, NoFileRoom), (4, ExceedsLimit)):
        jobs = [new(f"line_{n}", batch=BATCH, line=n) for n in range(number)]
        with pytest.raises(error):
            await world.queue(jobs, limits)
    await world.queue([new("line_1", batch=BATCH, line=1)], limits)
    assert await world.store.kept(ACME, 1.0) == kept + 1000 + ROW_BYTES
    await world.store.submit(new("other", tenant=BETA), limits)
    await world.store.delete(ACME, job.name, 20.0)
    await world.store.forget([job.id])
    assert await world.store.kept(ACME, 20.0) == ROW_BYTES
    await world.store.submit(new("two", input=Extent(object=ObjectId("b"), size=ROW_BYTES)), limits)
