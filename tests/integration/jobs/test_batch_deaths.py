"""Batches whose runners die or freeze, whose files and keys are gone, or that go themselves."""

from pathlib import Path

import pytest

from penstock.connectors.postgres.database import Database
from penstock.domain.clock import DAY_S
from penstock.domain.errors import ExceedsLimit, OverLimit
from penstock.domain.jobs.batch import MOST_TRIES, BatchState
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.file import object_of
from penstock.domain.jobs.job import ACTS_S, MOST_ACTS
from penstock.domain.jobs.payload import ROW_BYTES
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.deferred.batches import NewBatch
from tests.support.clock import ManualClock
from tests.support.jobs.batches import BatchSite, line
from tests.support.jobs.stores import PostgresWorld

pytestmark = pytest.mark.integration
LINES = [line(f"c{number}") for number in range(1, 7)]


@pytest.fixture
def site(database: Database, tmp_path: Path, clock: ManualClock) -> BatchSite:
    return BatchSite(database, tmp_path, clock)


async def test_a_lost_runners_batch_goes_on(site: BatchSite) -> None:
    """64 lines, 27 done, the runner gone: another one takes over, and the batch completes with both files' lines."""
    lost, me = await site.runner(), await site.runner()
    batch = await site.create(*(line(f"c{number}") for number in range(64)))
    await site.step(lost)
    running = await site.claim(lost, 40)
    await site.answer(running[:27])
    await site.lose(lost)
    assert await site.answer(running[27:]) == 0, "fenced"
    assert await site.answer(await site.claim(me)) == 37
    done = await site.until_over(me, batch.id)
    assert (done.state, done.counts.completed) == (BatchState.COMPLETED, 64)


@pytest.mark.parametrize("state", [BatchState.VALIDATING, BatchState.FINALIZING, BatchState.CANCELLING])
async def test_a_step_is_begun_anew_after_a_death(site: BatchSite, state: BatchState) -> None:
    """A runner that dies with the batch itself in its hands leaves it as it was; its late end is refused."""
    lost, me = await site.runner(), await site.runner()
    batch = await site.create(*LINES)
    if state is not BatchState.VALIDATING:
        await site.step(me)
        await site.answer(await site.claim(me, 2 if state is BatchState.CANCELLING else 6))
    if state is BatchState.CANCELLING:
        await site.intake.cancel(site.who(), batch.id)
    await site.work.advance(site.clock.now())
    (held,) = await site.work.claim(lost, [state], [], site.clock.now(), 5)
    assert await site.work.claim(me, [state], [], site.clock.now(), 5) == ()
    await site.lose(lost)
    if state is BatchState.VALIDATING:
        await site.step(me)
        assert not await site.work.refuse(held, [], site.clock.now())
        await site.answer(await site.claim(me))
    done = await site.until_over(me, batch.id)
    assert not await site.work.close(held, done.counts, done.tokens, (None, None), site.clock.now())
    assert sum(map(len, await site.results(done))) == 6
    assert await site.find(batch.id) == done


async def test_a_frozen_runner_writes_no_second_files(site: BatchSite) -> None:
    """Frozen between its files and its commit, a runner is overtaken: one pair of files, its own are removed."""
    frozen, me = await site.runner(), await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    await site.answer(await site.claim(me))
    closing, close = site.closing(frozen), site.work.close

    async def overtaken(*told: object) -> bool:
        site.work.close = close  # type: ignore[method-assign]
        await site.lose(frozen)
        await site.until_over(me, batch.id)
        return await close(*told)  # type: ignore[arg-type]

    site.work.close = overtaken  # type: ignore[assignment, method-assign]
    await closing.step(site.clock.now())
    done = await site.find(batch.id)
    assert done.state is BatchState.COMPLETED
    rows = await site.database.rows("select object from file where purpose = 'batch_output'")
    assert [row["object"] for row in rows] == [object_of(done.output_file)]
    stored = [name async for group in site.payloads.names(2e12) for name in group if name.startswith("file/")]
    assert set(stored) == {object_of(done.output_file), batch.input_object}


async def test_a_file_that_ends_runners_fails_in_the_end(site: BatchSite) -> None:
    """A file whose judging takes its runner down each time does not come round for ever."""
    batch = await site.create(*LINES)
    for _ in range(MOST_TRIES):
        runner = await site.runner()
        assert len(await site.work.claim(runner, [BatchState.VALIDATING], [], site.clock.now(), 5)) == 1
        await site.lose(runner)
    failed = await site.until_over(await site.runner(), batch.id)
    assert (failed.state, failed.faults[0].code) == (BatchState.FAILED, "validation_failed")


async def test_a_lost_input_fails_the_batch(site: BatchSite) -> None:
    """An input whose bytes are gone is told as such."""
    batch = await site.create(*LINES)
    await site.payloads.delete(batch.input_object)
    failed = await site.until_over(await site.runner(), batch.id)
    assert failed.faults[0].code == "file_unreadable"


async def test_a_revoked_key_runs_no_batch(site: BatchSite) -> None:
    """A key that is not known is waited for, since it may be new; then the batch fails."""
    site.revoked = True
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    assert (await site.find(batch.id)).state is BatchState.VALIDATING
    site.clock.advance(60.0)
    failed = await site.until_over(me, batch.id)
    assert failed.faults[0].code == "key_revoked"


async def test_a_full_tenant_runs_no_further_batch(site: BatchSite) -> None:
    """Each line counts for its row; the batch says what to delete, and leaves nothing."""
    site.plan = Plan(file_bytes=7 * ROW_BYTES)
    batch = await site.create(*LINES)
    await site.step(await site.runner())
    failed = await site.find(batch.id)
    (fault,) = failed.faults
    assert (failed.state, fault.code) == (BatchState.FAILED, "file_limit_exceeded")
    assert "delete" in fault.message
    (row,) = await site.database.rows("select count(*) as jobs from job")
    assert row["jobs"] == 0


async def test_batches_count_in_what_their_tenant_keeps(site: BatchSite) -> None:
    """Above the bound none is made; they and what a refused one says count until a month after their end."""
    me, world, now = await site.runner(), PostgresWorld(site.database), site.clock.now
    first = await site.create(b"{}")
    kept = await site.jobs.kept(site.tenant, now())
    await site.step(me)
    assert (await site.find(first.id)).state is BatchState.FAILED
    faulty = await site.jobs.kept(site.tenant, now())
    assert faulty > kept
    file = await site.upload(*LINES)
    kept = await site.jobs.kept(site.tenant, now())
    wish = NewBatch(input_file=file, endpoint=Api.CHAT, window="24h")
    for room, expected in ((ROW_BYTES - 1, ExceedsLimit), (kept + ROW_BYTES, NoFileRoom)):
        site.plan = Plan(file_bytes=room)
        with pytest.raises(expected):
            await site.intake.create(site.who(), wish)
    site.plan = Plan(file_bytes=2 * kept)
    await site.intake.create(site.who(), wish)
    assert await world.is_consistent()
    site.clock.advance(31 * DAY_S)
    for _ in range(3):
        await site.step(me)
    assert await site.database.rows("select from batch where id = $1", first.id) == []
    assert await world.is_consistent()


async def test_a_paused_batch_expires(site: BatchSite) -> None:
    """A pause does not move the deadline, and is forgotten with the batch."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    await site.intake.pause(site.who(), batch.id)
    site.clock.advance(86_400.0)
    done = await site.until_over(me, batch.id)
    assert done.state is BatchState.EXPIRED
    assert await site.jobs.paused() == frozenset()


async def test_pauses_have_a_bound_a_minute(site: BatchSite) -> None:
    """A loop of pause and resume would use the engine free of charge; what is refused changes nothing."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    for _ in range(MOST_ACTS // 2):
        await site.intake.pause(site.who(), batch.id)
        await site.intake.resume(site.who(), batch.id)
    with pytest.raises(OverLimit) as refused:
        await site.intake.pause(site.who(), batch.id)
    assert 1.0 <= (refused.value.retry_after_s or 0.0) <= ACTS_S
    assert (await site.intake.find(site.who(), batch.id)).paused_at == 0.0
