"""Batches on a real Postgres, from their file to their results: each line once in one file, whatever happens."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.files import PostgresFiles
from penstock.connectors.postgres.webhooks import PostgresEndpoints
from penstock.domain.errors import Conflict, IdempotencyMismatch, UnknownModel, UnknownObject
from penstock.domain.fleet.table import RoutingTable, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, KeyId, TenantId, WorkerId
from penstock.domain.jobs.batch import BatchState
from penstock.domain.jobs.errors import WindowNotOffered
from penstock.domain.jobs.file import object_of
from penstock.domain.jobs.ids import BatchId
from penstock.domain.jobs.job import PAUSE_ALL, JobState, Reason
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.deferred import batches
from penstock.gateway.deferred.batches import NewBatch
from penstock.gateway.deferred.shapes import Paged
from tests.support.clock import ManualClock
from tests.support.jobs.batches import ROUTE, BatchSite, line
from tests.support.samples.calls import VERSION
from tests.support.sealing import FixedKeys

pytestmark = pytest.mark.integration
LINES = [line(f"c{number}") for number in range(1, 7)]


@pytest.fixture
def site(database: Database, tmp_path: Path, clock: ManualClock) -> BatchSite:
    return BatchSite(database, tmp_path, clock)


async def test_from_file_to_results(site: BatchSite) -> None:
    """Answers are in the output file and errors in the error file; counts, tokens and times are the rows'."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    begun = await site.find(batch.id)
    assert (begun.state, begun.counts.total) == (BatchState.IN_PROGRESS, 6)
    first = await site.claim(me, 4)
    assert await site.answer(first) == 4
    assert await site.answer(await site.claim(me), status=400) == 2
    counts = (await site.find(batch.id)).counts
    assert (counts.completed, counts.failed) == (4, 2)
    done = await site.until_over(me, batch.id)
    output, errors = await site.results(done)
    assert (done.state, done.counts.completed, done.counts.failed) == (BatchState.COMPLETED, 4, 2)
    assert sorted(one["custom_id"] for one in output + errors) == [f"c{number}" for number in range(1, 7)]
    assert {one["response"]["status_code"] for one in output} == {200}
    assert {(one["response"]["status_code"], one["error"]) for one in errors} == {(400, None)}
    assert (done.tokens.prompt, done.tokens.output) == (12, 16)
    assert site.closed == [done.counts]
    assert set(done.times) == {BatchState.IN_PROGRESS, BatchState.FINALIZING, BatchState.COMPLETED}
    assert await site.reserved() == 0


async def test_a_wrong_file_fails_and_runs_nothing(site: BatchSite) -> None:
    """One wrong line among good ones: nothing is queued, nothing reserved, and the line is named."""
    me = await site.runner()
    batch = await site.create(*LINES, line("c1"))
    failed = await site.until_over(me, batch.id)
    assert failed.state is BatchState.FAILED
    assert [(fault.line, fault.code) for fault in failed.faults] == [(7, "duplicate_custom_id")]
    assert await site.claim(me) == ()
    assert await site.reserved() == 0


async def test_a_failed_batch_holds_no_tokens(site: BatchSite) -> None:
    """A batch beyond the enqueued tokens fails as a whole; what it asked for is free again for the next."""
    site.plan = Plan(batch_enqueued_tokens=200)
    me = await site.runner()
    large = await site.create(*(line(f"c{number}", max_tokens=100) for number in range(9)))
    failed = await site.until_over(me, large.id)
    assert [fault.code for fault in failed.faults] == ["token_limit_exceeded"]
    assert await site.reserved() == 0
    small = await site.create(line("c1", max_tokens=100))
    await site.step(me)
    assert (await site.find(small.id)).state is BatchState.IN_PROGRESS


async def test_cancelled_in_flight_is_counted_and_written(site: BatchSite) -> None:
    """Lines that run while a batch is cancelled end in the error file, done ones stay in the output file."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    running = await site.claim(me, 4)
    await site.answer(running[:2])
    assert (await site.intake.cancel(site.who(), batch.id)).state is BatchState.CANCELLING
    stops = await site.jobs.asked_to_stop(me, site.clock.now())
    assert {stop.id for stop in stops} == {job.id for job in running[2:]}
    await site.step(me)
    assert (await site.find(batch.id)).state is BatchState.CANCELLING, "two lines still run"
    await site.end(running[2:], JobState.CANCELLED, Reason.CALLER)
    done = await site.until_over(me, batch.id)
    output, errors = await site.results(done)
    assert (done.state, len(output), len(errors)) == (BatchState.CANCELLED, 2, 4)
    assert {one["error"]["code"] for one in errors} == {"batch_cancelled"}
    assert await site.reserved() == 0


async def test_cancel_ends_though_a_runner_never_answers(site: BatchSite) -> None:
    """Within 30 seconds the batch is cancelled; what its runner says afterwards is fenced."""
    me, deaf = await site.runner(), await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    running = await site.claim(deaf)
    await site.intake.cancel(site.who(), batch.id)
    for _ in range(30):
        site.clock.advance(1.0)
        await site.step(me)
    done = await site.find(batch.id)
    assert done.state is BatchState.CANCELLED
    assert await site.answer(running) == 0
    assert len((await site.results(done))[1]) == 6


async def test_cancel_races_with_ends(site: BatchSite) -> None:
    """Cancels and ends at the same moment: each line is in one file, and no ``custom_id`` is in none."""
    me = await site.runner()
    for _ in range(5):
        batch = await site.create(*(line(f"c{number}") for number in range(40)))
        await site.step(me)
        running = await site.claim(me, 30)
        thirds = [running[:10], running[10:20], running[20:]]
        await asyncio.gather(
            site.answer(thirds[0]),
            site.intake.cancel(site.who(), batch.id),
            site.answer(thirds[1]),
            site.intake.cancel(site.who(), batch.id),
            site.answer(thirds[2], status=400),
        )
        await site.end(running, JobState.CANCELLED, Reason.CALLER)
        done = await site.until_over(me, batch.id)
        output, errors = await site.results(done)
        assert sorted(one["custom_id"] for one in output + errors) == sorted(f"c{number}" for number in range(40))


async def test_an_expired_batch_keeps_what_is_done(site: BatchSite) -> None:
    """At the deadline the rest is ``batch_expired``, also a line that still runs."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    running = await site.claim(me, 3)
    await site.answer(running[:2])
    site.clock.advance(86_400.0)
    await site.step(me)
    await site.end(running[2:], JobState.FAILED, Reason.DEADLINE)
    done = await site.until_over(me, batch.id)
    output, errors = await site.results(done)
    assert (done.state, len(output), len(errors)) == (BatchState.EXPIRED, 2, 4)
    assert {one["error"]["code"] for one in errors} == {"batch_expired"}
    assert all(one["response"] is None for one in errors)
    assert (done.counts.completed, done.counts.failed) == (2, 0)


async def test_a_batch_that_was_never_judged_expires(site: BatchSite) -> None:
    """If no runner looked within the window, the first one that does tells the end of each line."""
    batch = await site.create(*LINES)
    site.clock.advance(86_400.0)
    done = await site.until_over(await site.runner(), batch.id)
    assert (done.state, done.output_file, done.counts.total) == (BatchState.EXPIRED, "", 6)
    assert {one["error"]["code"] for one in (await site.results(done))[1]} == {"batch_expired"}


async def test_another_keys_cancel_changes_no_owner(site: BatchSite) -> None:
    """An admin's cancel leaves the files to the key and tenant that made the batch."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    await site.answer(await site.claim(me, 1))
    await site.intake.cancel(site.who("admin"), batch.id)
    done = await site.until_over(me, batch.id)
    rows = await site.database.rows(
        "select tenant, key, purpose from file where id = any($1)",
        [
            done.output_file,
            done.error_file,
        ],
    )
    assert {tuple(row) for row in rows} == {("acme", "k", "batch_output")}
    assert len(rows) == 2


async def test_others_see_nothing(site: BatchSite) -> None:
    """Another tenant's batch and file are not there, for each act."""
    batch, theirs = await site.create(*LINES), await site.upload(*LINES)
    other = BatchSite(site.database, site.folder, site.clock, tenant=TenantId("globex"))
    who = other.who()
    for act in (other.intake.find, other.intake.cancel, other.intake.pause, other.intake.resume):
        with pytest.raises(UnknownObject):
            await act(who, batch.id)
    with pytest.raises(UnknownObject):
        await other.intake.create(who, NewBatch(input_file=theirs, endpoint=Api.CHAT, window="24h"))
    assert await other.intake.page(who, Paged()) == ((), False)


async def test_a_key_makes_a_batch_once(site: BatchSite) -> None:
    """The same request under its key is the same batch, also at the same moment; another body is refused."""
    wish = NewBatch(input_file=await site.upload(*LINES), endpoint=Api.CHAT, window="24h", idempotency_key="run-7")
    made = await asyncio.gather(*(site.intake.create(site.who(), wish) for _ in range(4)))
    assert len({batch.id for batch, _ in made}) == 1
    assert sorted(is_repeated for _, is_repeated in made) == [False, True, True, True]
    with pytest.raises(IdempotencyMismatch):
        await site.intake.create(
            site.who(),
            NewBatch(input_file=wish.input_file, endpoint=Api.RESPONSES, window="24h", idempotency_key="run-7"),
        )
    (row,) = await site.database.rows("select idempotency from batch where id = $1", made[0][0].id)
    assert "run-7" not in row["idempotency"]


async def test_a_repeated_batch_is_checked_for_its_models(site: BatchSite) -> None:
    """Another key of the tenant gets nothing under its idempotency key that it could not have made."""
    wish = NewBatch(input_file=await site.upload(*LINES), endpoint=Api.CHAT, window="24h", idempotency_key="run-7")
    await site.intake.create(site.who(), wish)
    await site.step(await site.runner())
    with pytest.raises(UnknownModel):
        await site.intake.create(replace(site.who(), models=(Alias("other"),)), wish)
    assert (await site.intake.create(site.who(), wish))[1]


async def test_windows_are_the_plans(site: BatchSite) -> None:
    """A window that the plan does not offer is refused with those that it does; the plan's deadline may be sooner."""
    with pytest.raises(WindowNotOffered, match="24h"):
        await site.create(*LINES, window="1h")
    site.plan = Plan(batch_windows="30m", job_deadline_s=3_600.0)
    now = site.clock.now()
    assert (await site.create(*LINES, window="30m")).deadline_at == now + 1_800.0
    assert (await site.create(*LINES, window="24h")).deadline_at == now + 3_600.0


async def test_pages(site: BatchSite) -> None:
    """Newest first; ``after`` leads on until all were seen, once."""
    made = []
    for _ in range(5):
        made.append((await site.create(*LINES)).id)
        site.clock.advance(1.0)
    seen, after = list[BatchId](), ""
    has_more = True
    while has_more:
        found, has_more = await site.intake.page(site.who(), Paged(after=after, limit=2))
        seen += [one.id for one in found]
        after = seen[-1]
    assert seen == made[::-1]


async def test_a_paused_batch_holds_no_slot_and_keeps_results(site: BatchSite) -> None:
    """Running lines are to stop, none starts, results stay, the deadline goes on; resumed, the rest runs."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    running = await site.claim(me, 3)
    await site.answer(running[:1])
    paused = await site.intake.pause(site.who(), batch.id)
    assert (paused.paused_at, paused.deadline_at) == (site.clock.now(), batch.deadline_at)
    assert len(await site.jobs.asked_to_stop(me, site.clock.now())) == 2
    await site.put_back(running[1:], may_have_run=False)
    site.clock.advance(10.0)
    assert await site.claim(me) == ()
    await site.intake.resume(site.who(), batch.id)
    site.clock.advance(10.0)
    assert await site.answer(await site.claim(me)) == 5
    done = await site.until_over(me, batch.id)
    assert (done.counts.completed, done.paused_at) == (6, 0.0)


async def test_a_batch_that_waits_says_why(site: BatchSite) -> None:
    """Pauses, an empty budget and closed hours are told by itself and in lists, and nothing once it is over."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)

    async def reasons() -> set[Reason]:
        (listed,), _ = await site.intake.page(site.who(), Paged())
        return {listed.reason, (await site.intake.find(site.who(), batch.id)).reason}

    assert await reasons() == {Reason.NONE}
    await site.intake.pause(site.who(), batch.id)
    assert await reasons() == {Reason.PAUSED}
    await site.intake.resume(site.who(), batch.id)
    await site.jobs.pause(PAUSE_ALL, site.clock.now())
    assert await reasons() == {Reason.PAUSED}
    await site.jobs.resume(PAUSE_ALL)
    afternoon = datetime.fromtimestamp(site.clock.now(), tz=UTC).hour >= 12
    site.plan = Plan(batch_hours=f"{'00:00-12:00' if afternoon else '12:00-24:00'} UTC")
    assert await reasons() == {Reason.HOURS}
    site.plan = Plan(batch_pools="spot")
    for pools, expected in ((("on-demand",), Reason.POOL), (("on-demand", "spot"), Reason.NONE)):
        worker = WorkerEntry(id=WorkerId("w"), url="http://w", state=WorkerState.READY, pools=pools)
        number, versions = site.table.number + 1, (replace(VERSION, workers=(worker,)),)
        site.table.swap(RoutingTable(number=number, made_at=0.0, routes=(ROUTE,), versions=versions), 0.0)
        assert await reasons() == {expected}
    await site.database.rows("update job_lane set parked_until = $1", site.clock.now() + 10.0)
    assert await reasons() == {Reason.BUDGET}
    assert batches.told(await site.intake.find(site.who(), batch.id))["reason"] == "budget"
    await site.intake.cancel(site.who(), batch.id)
    await site.until_over(me, batch.id)
    assert await reasons() == {Reason.NONE}


async def test_what_is_left_of_a_batch_is_removed(site: BatchSite) -> None:
    """Some time after its end its lines and their stored answers are gone; its files and counts stay."""
    me = await site.runner()
    batch = await site.create(*LINES)
    await site.step(me)
    await site.answer(await site.claim(me))
    done = await site.until_over(me, batch.id)
    site.clock.advance(601.0)
    await site.closing(me).step(site.clock.now())
    assert await site.database.rows("select from job where batch = $1", batch.id) == []
    stored = [name async for group in site.payloads.names(2e12) for name in group]
    assert set(stored) == {batch.input_object, object_of(done.output_file)}
    assert await site.find(batch.id) == done
    assert len((await site.results(done))[0]) == 6


async def test_each_end_is_told(site: BatchSite) -> None:
    """The tenant's endpoint gets one event for each batch that ended, by the kind of its end."""
    endpoints = PostgresEndpoints(site.database, FixedKeys())
    await endpoints.create(site.tenant, KeyId("k"), "https://example.com/hook", ["*"], b"s" * 32)
    me = await site.runner()
    made = [await site.create(*LINES), await site.create(*LINES), await site.create(*LINES), await site.create(b"no")]
    await site.step(me)
    await site.step(me)
    await site.intake.cancel(site.who(), made[0].id)
    await site.answer([job for job in await site.claim(me) if job.batch == made[1].id])
    site.clock.advance(86_411.0)
    for batch in made:
        await site.until_over(me, batch.id)
    rows = await site.database.rows("select type, object from webhook_event")
    ends = ("cancelled", "completed", "expired", "failed")
    assert sorted(map(tuple, rows)) == [(f"batch.{end}", batch.id) for end, batch in zip(ends, made, strict=True)]


async def test_a_file_in_use_is_kept(site: BatchSite) -> None:
    """While a batch reads its file it is neither deleted nor does it expire; after the batch's end both happen."""
    files = PostgresFiles(site.database)
    batch = await site.create(*LINES, LINES[0])
    for tenant, error in ((site.tenant, Conflict), (TenantId("globex"), UnknownObject)):
        with pytest.raises(error):
            await files.delete(tenant, batch.input_file, site.clock.now())
    month = site.clock.now() + 31 * 86_400.0
    assert await files.expired(month, 10) == ()
    await site.until_over(await site.runner(), batch.id)
    assert [one.owner for one in await files.expired(month, 10)] == [batch.input_file]
    await files.delete(site.tenant, batch.input_file, site.clock.now())
    with pytest.raises(UnknownObject):
        await site.intake.create(site.who(), NewBatch(input_file=batch.input_file, endpoint=Api.CHAT, window="24h"))


async def test_a_delete_races_with_a_batch(site: BatchSite) -> None:
    """Of a batch and a deletion of its file at the same moment one wins: no batch has a deleted file."""
    files = PostgresFiles(site.database)
    for _ in range(20):
        file = await site.upload(*LINES)
        made, deleted = await asyncio.gather(
            site.intake.create(site.who(), NewBatch(input_file=file, endpoint=Api.CHAT, window="24h")),
            files.delete(site.tenant, file, site.clock.now()),
            return_exceptions=True,
        )
        assert isinstance(made, UnknownObject) != isinstance(deleted, Conflict)


async def test_tenants_take_turns(site: BatchSite) -> None:
    """A tenant with many batches to judge does not delay another's only one."""
    others = BatchSite(site.database, site.folder, site.clock, tenant=TenantId("globex"))
    for _ in range(5):
        await site.create(*LINES)
        site.clock.advance(0.1)
    late = await others.create(*LINES)
    claimed = await site.work.claim(await site.runner(), [BatchState.VALIDATING], [], site.clock.now(), 2)
    assert late.id in [one.id for one in claimed]


async def test_acts_on_what_is_over_are_refused(site: BatchSite) -> None:
    """A batch that is over can't be cancelled, paused or resumed: its state is named."""
    batch = await site.create(*LINES, b"no")
    await site.until_over(await site.runner(), batch.id)
    for act in (site.intake.cancel, site.intake.pause, site.intake.resume):
        with pytest.raises(Conflict, match="failed"):
            await act(site.who(), batch.id)
