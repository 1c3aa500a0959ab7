"""What every store of jobs promises, held against memory and a real Postgres."""

import pytest

from penstock.domain.ids import Alias, KeyId, RequestId
from penstock.domain.jobs.ids import BatchId, JobName, ObjectId
from penstock.domain.jobs.job import (
    PAUSE_ALL,
    JobState,
    Reason,
    Stop,
    StopReason,
    pause_of,
)
from penstock.domain.jobs.payload import Extent
from tests.support.jobs.stores import ACME, BATCH, BETA, FREE, World, back, ended, lines, new, quota
from tests.twins.job_rows import Enqueued

pytestmark = pytest.mark.usefixtures("consistent")


async def test_a_job_goes_from_submit_to_its_answer(world: World) -> None:
    """Each state comes back as it was told, and what was reserved is free at the end."""
    submitted = await world.store.submit(new("job_1", metadata={"a": "b"}), FREE)
    assert (submitted.is_new, submitted.job.state, submitted.job.metadata) == (True, JobState.QUEUED, {"a": "b"})
    assert await world.enqueued(ACME) == {Alias("chat"): Enqueued(tokens=100, jobs=1)}
    (job,) = await world.store.claim(await world.runner(), quota(5), 1.0)
    assert (job.state, job.attempt, job.epoch, job.started_at) == (JobState.RUNNING, 1, 1, 1.0)
    output = Extent(object=ObjectId("jobs/job_1/answer-1"), at=3, size=4)
    end = ended(job, status=200, request=RequestId("job_1-1"), output=output, prompt_tokens=5, output_tokens=6)
    assert await world.store.finish([end]) == {job.id}
    found = await world.store.find(ACME, job.name, 10.0)
    assert found is not None
    assert (found.state, found.ended_at, found.expires_at) == (JobState.SUCCEEDED, 9.0, 3609.0)
    assert (found.output, found.status, found.request, found.output_tokens) == (output, 200, "job_1-1", 6)
    assert await world.enqueued(ACME) == {}


async def test_the_nearest_deadline_of_a_tenant_is_first(world: World) -> None:
    """Over single jobs, batches and keys alike."""
    runner = await world.runner()
    await lines(world, 2, deadline_at=50.0)
    for name, deadline in (("late", 90.0), ("soon", 10.0)):
        await world.store.submit(new(name, deadline_at=deadline, key=KeyId(name)), FREE)
    order = [(await world.store.claim(runner, quota(1), 1.0))[0].deadline_at for _ in range(4)]
    assert order == [10.0, 50.0, 50.0, 90.0]
    assert await world.store.claim(runner, quota(1), 1.0) == ()


async def test_no_tenant_fills_a_window_and_shares_are_by_weight(world: World) -> None:
    """A tenant with most of the jobs gets its weight's share of tokens, whatever the jobs' sizes."""
    runner = await world.runner()
    await world.weigh(BETA, 3)
    await lines(world, 400, cost_tokens=30)
    await lines(world, 120, batch=BatchId("batch_2"), tenant=BETA, cost_tokens=100)
    first = await world.store.claim(runner, quota(8), 1.0)
    assert {job.tenant for job in first} == {ACME, BETA}
    tokens = {ACME: 0, BETA: 0}
    for _ in range(20):
        for job in await world.store.claim(runner, quota(8), 1.0):
            tokens[job.tenant] += job.cost_tokens
    assert tokens[BETA] / sum(tokens.values()) == pytest.approx(0.75, abs=0.06)


async def test_idling_earns_nothing(world: World) -> None:
    """A tenant that comes late has no claim on the time before."""
    runner = await world.runner()
    await lines(world, 200)
    for _ in range(10):
        await world.store.claim(runner, quota(8), 1.0)
    await lines(world, 100, batch=BatchId("batch_2"), tenant=BETA)
    counted = [job.tenant for _ in range(8) for job in await world.store.claim(runner, quota(8), 1.0)]
    assert abs(counted.count(BETA) - counted.count(ACME)) <= 8


async def test_a_claim_obeys_times_pauses_and_closed_tenants(world: World) -> None:
    """Nothing before its time, past its deadline, paused, or closed for the version is handed out."""
    runner, store = await world.runner(), world.store
    await store.submit(new("later", not_before=50.0), FREE)
    await store.submit(new("late", deadline_at=5.0), FREE)
    await lines(world, 1)
    await store.submit(new("other", tenant=BETA), FREE)
    await store.pause(pause_of(BATCH), 1.0)
    await store.pause(PAUSE_ALL, 1.0)
    assert await store.claim(runner, quota(9), 10.0) == ()
    await store.resume(PAUSE_ALL)
    assert await store.paused() == {pause_of(BATCH)}
    assert await store.claim(runner, quota(9, BETA), 10.0) == ()
    assert [job.name for job in await store.claim(runner, quota(9), 13.0)] == ["other"]
    await store.resume(pause_of(BATCH))
    assert [job.name for job in await store.claim(runner, quota(9), 13.0)] == [f"{BATCH}_0"]
    assert [job.name for job in await store.claim(runner, quota(9), 51.0)] == ["later"]
    await store.tidy(52.0)
    late = await store.find(ACME, JobName("late"), 52.0)
    assert late is not None
    assert (late.state, late.reason) == (JobState.FAILED, Reason.DEADLINE)


async def test_what_a_queued_job_waits_for_is_told(world: World) -> None:
    """A pause is told by every job that it holds, and is over with it."""
    await world.store.submit(new("job_1", not_before=50.0), FREE)

    async def reason() -> Reason:
        found = await world.store.find(ACME, JobName("job_1"), 1.0)
        assert found is not None
        return found.reason

    assert await reason() is Reason.NOT_BEFORE
    await world.store.pause(PAUSE_ALL, 1.0)
    assert await reason() is Reason.PAUSED
    await world.store.resume(PAUSE_ALL)
    assert await reason() is Reason.NOT_BEFORE


async def test_a_late_end_changes_nothing(world: World) -> None:
    """The runner that was taken for dead is fenced: its end and its put-back are refused, the other's counts."""
    await world.store.submit(new("job_1"), FREE)
    frozen, other = await world.runner(), await world.runner()
    (held,) = await world.store.claim(frozen, quota(1), 1.0)
    taken = await world.lose(frozen, 2.0)
    assert (taken.requeued, taken.dead_letters) == (1, 0)
    (again,) = await world.store.claim(other, quota(1), 3.0)
    assert (again.id, again.attempt, again.epoch) == (held.id, 2, held.epoch + 1)
    assert await world.store.finish([ended(held, JobState.FAILED)]) == frozenset()
    assert await world.store.put_back([back(held)]) == {}
    assert await world.store.claim(frozen, quota(1), 3.0) == ()
    assert await world.store.finish([ended(again)]) == {again.id}
    assert await world.store.finish([ended(again, JobState.FAILED)]) == frozenset()
    found = await world.store.find(ACME, held.name, 4.0)
    assert found is not None
    assert found.state is JobState.SUCCEEDED
    assert [one.error for one in await world.store.attempts(held.id)] == ["runner_lost"]


async def test_a_job_that_takes_its_runners_down_ends_as_a_dead_letter(world: World) -> None:
    """A lost attempt counts; after the last the job fails, with all of its attempts."""
    await world.store.submit(new("job_1", max_attempts=3), FREE)
    for attempt in range(3):
        runner = await world.runner()
        (job,) = await world.store.claim(runner, quota(1), 1.0)
        assert job.attempt == attempt + 1
        await world.lose(runner, 2.0)
    found = await world.store.find(ACME, JobName("job_1"), 3.0)
    assert found is not None
    assert (found.state, found.reason, found.error) == (JobState.FAILED, Reason.DEAD_LETTER, "runner_lost")
    assert [one.attempt for one in await world.store.attempts(found.id)] == [1, 2, 3]


async def test_a_failed_end_is_an_attempt_as_well(world: World) -> None:
    """An attempt that the runner itself ends is listed with those that went back, and stays after a replay."""
    submitted = await world.store.submit(new("job_1", max_attempts=2), FREE)
    runner = await world.runner()
    (job,) = await world.store.claim(runner, quota(1), 1.0)
    assert await world.store.put_back([back(job, at=2.0, error="engine_error")]) == {job.id: JobState.QUEUED}
    (job,) = await world.store.claim(runner, quota(1), 22.0)
    assert await world.store.finish([ended(job, JobState.FAILED, request="req_1")]) == {job.id}
    assert [one.attempt for one in await world.store.attempts(submitted.job.id)] == [1, 2]


async def test_what_never_ran_is_no_attempt(world: World) -> None:
    """It goes back with its attempt and waits; what may have run counts."""
    submitted = await world.store.submit(new("job_1", max_attempts=2), FREE)
    runner = await world.runner()
    for now in (1.0, 21.0, 41.0):
        (job,) = await world.store.claim(runner, quota(1), now)
        assert job.attempt == 1
        put = back(job, may_have_run=False, at=now, not_before=now + 10, reason=Reason.CAPACITY)
        assert await world.store.put_back([put]) == {job.id: JobState.QUEUED}
        assert await world.store.claim(runner, quota(1), now + 5) == ()
    for now, state in ((61.0, JobState.QUEUED), (81.0, JobState.FAILED)):
        (job,) = await world.store.claim(runner, quota(1), now)
        assert await world.store.put_back([back(job, at=now, error="engine_error")]) == {job.id: state}
    assert [one.error for one in await world.store.attempts(submitted.job.id)] == ["engine_error"] * 2


async def test_a_job_is_not_put_back_beyond_its_deadline(world: World) -> None:
    """It waits until its deadline at most, and ends there."""
    await world.store.submit(new("job_1", deadline_at=20.0), FREE)
    (job,) = await world.store.claim(await world.runner(), quota(1), 1.0)
    await world.store.put_back([back(job, not_before=500.0)])
    await world.store.tidy(20.5)
    assert await world.store.tidy(21.0) in (0, 1)
    found = await world.store.find(ACME, job.name, 22.0)
    assert found is not None
    assert found.reason is Reason.DEADLINE


async def test_cancel_ends_a_queued_job_and_asks_a_running_one(world: World) -> None:
    """The runner is told; what it then puts back is cancelled, and an end that came first stays."""
    runner = await world.runner()
    for name in ("queued", "running", "done"):
        await world.store.submit(new(name, deadline_at={"queued": 900.0}.get(name, 100.0)), FREE)
    running, done = await world.store.claim(runner, quota(2), 1.0)
    states = [await world.store.cancel(ACME, JobName(name), 2.0) for name in ("queued", "running", "done")]
    assert [job.state for job in states if job] == [JobState.CANCELLED, JobState.RUNNING, JobState.RUNNING]
    assert {stop.id for stop in await world.store.asked_to_stop(runner, 3.0)} == {running.id, done.id}
    assert await world.store.put_back([back(running)]) == {running.id: JobState.CANCELLED}
    assert await world.store.finish([ended(done)]) == {done.id}
    last = await world.store.cancel(ACME, done.name, 10.0)
    assert last is not None
    assert last.state is JobState.SUCCEEDED


async def test_a_runner_is_told_what_to_stop(world: World) -> None:
    """Cancelled, past its deadline, paused: each with its reason; the rest goes on."""
    runner = await world.runner()
    await lines(world, 1)
    for name, deadline in (("cancelled", 100.0), ("late", 5.0), ("fine", 100.0)):
        await world.store.submit(new(name, deadline_at=deadline), FREE)
    held = {str(job.name): job for job in await world.store.claim(runner, quota(9), 1.0)}
    await world.store.cancel(ACME, JobName("cancelled"), 2.0)
    await world.store.pause(pause_of(BATCH), 2.0)
    wanted = {
        "cancelled": StopReason.CANCELLED,
        "late": StopReason.DEADLINE,
        f"{BATCH}_0": StopReason.PAUSED,
    }
    stops = {Stop(id=held[name].id, epoch=1, why=why) for name, why in wanted.items()}
    assert set(await world.store.asked_to_stop(runner, 6.0)) == stops


async def test_a_runner_that_does_not_stop_is_overruled(world: World) -> None:
    """A cancelled job ends 20 s later and a late one after 10 s, whatever its runner does; its end is fenced."""
    runner = await world.runner()
    await world.store.submit(new("cancelled"), FREE)
    await world.store.submit(new("late", deadline_at=30.0), FREE)
    jobs = await world.store.claim(runner, quota(2), 1.0)
    await world.store.cancel(ACME, JobName("cancelled"), 10.0)
    assert await world.store.tidy(30.0) == 0
    assert await world.store.tidy(31.0) == 1
    assert await world.store.tidy(41.0) == 1
    assert await world.store.finish([ended(job) for job in jobs]) == frozenset()
    assert await world.enqueued(ACME) == {}


async def test_a_revoked_key_takes_along_what_has_not_begun(world: World) -> None:
    """Its queued and waiting jobs are cancelled with the reason; what runs ends as it would, other keys' go on."""
    runner, key = await world.runner(), KeyId("old")
    await world.store.submit(new("running", key=key), FREE)
    (running,) = await world.store.claim(runner, quota(1), 1.0)
    await world.store.submit(new("queued", key=key), FREE)
    await world.store.submit(new("waiting", key=key, not_before=500.0), FREE)
    await world.store.submit(new("other"), FREE)
    await world.revoke(key)
    assert [job.name for job in await world.store.claim(runner, quota(9), 2.0)] == ["other"]
    assert await world.store.tidy(3.0) == 2
    for name in ("queued", "waiting"):
        found = await world.store.find(ACME, JobName(name), 4.0)
        assert found is not None
        assert (found.state, found.reason) == (JobState.CANCELLED, Reason.KEY_REVOKED)
    assert await world.store.finish([ended(running)]) == {running.id}
