"""What every store of responses promises, held against memory and a real Postgres."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import asyncpg
import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.files import PostgresFiles
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.stored_responses import PostgresStoredResponses
from penstock.domain.errors import Conflict, ExceedsLimit
from penstock.domain.ids import Alias, KeyId, RequestId, TenantId, VersionId
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.file import FileLimits, FilePurpose, StoredFile
from penstock.domain.jobs.ids import FileId, JobName
from penstock.domain.jobs.job import EnqueueLimits, JobKind, NewJob
from penstock.domain.jobs.payload import ROW_BYTES, Expired, Extent, object_id, owner_of
from penstock.domain.jobs.stored_response import KIND, Begun, EventPiece, ResponseId, StoredResponse, object_of
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.tenant import Priority
from penstock.jobs.response_attempts import AttemptRows
from tests.support.clock import ManualClock
from tests.support.jobs.stores import FREE, PostgresWorld, back, ended, quota
from tests.twins.stored_responses import MemoryStoredResponses

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
ONE, OTHER = ResponseId("resp_00000000000000000001"), ResponseId("resp_00000000000000000002")
HELD = "update job set state = 'running', epoch = $2, attempt = attempt + 1 where name = $1"


class Rows(AttemptRows, Protocol):
    kind: str

    async def expired(self, now: float, limit: int) -> Sequence[Expired]: ...

    async def forget(self, owners: Sequence[str], now: float) -> None: ...

    async def known(self, owners: Sequence[str]) -> frozenset[str]: ...


class House(NamedTuple):
    rows: Rows
    hold: Callable[[ResponseId, int], Awaitable[None]]
    """Let an attempt hold the response's job."""
    clock: ManualClock


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def house(request: pytest.FixtureRequest) -> House:
    clock = ManualClock()
    if request.param == "memory":
        memory = MemoryStoredResponses(clock)

        async def hold_in_memory(response: ResponseId, epoch: int) -> None:
            memory.holders[response] = epoch

        return House(memory, hold_in_memory, clock)
    database: Database = request.getfixturevalue("database")

    async def hold(response: ResponseId, epoch: int) -> None:
        with_job = await database.rows("select 1 from job where name = $1", response)
        if not with_job:
            await PostgresJobs(database).submit(job_of(response, clock), EnqueueLimits())
        await database.rows(HELD, response, epoch)

    return House(PostgresStoredResponses(database, clock), hold, clock)


def job_of(response: ResponseId, clock: ManualClock) -> NewJob:
    return NewJob(
        name=JobName(response),
        tenant=ACME,
        key=KeyId("k"),
        kind=JobKind.RESPONSE,
        api=Api.RESPONSES,
        model=Alias("m"),
        version=VersionId("m@1"),
        cost_tokens=1,
        created_at=clock.now(),
        deadline_at=clock.now() + 60.0,
        keep_s=3600.0,
        input=Extent(object=object_of(response)),
    )


def stored(response: ResponseId, clock: ManualClock, *, keep_s: float = 60.0) -> StoredResponse:
    return StoredResponse(
        id=response,
        tenant=ACME,
        object=object_of(response),
        created_at=clock.now(),
        expires_at=clock.now() + keep_s,
        begin_bytes=3,
        input_at=12,
        input_bytes=40,
        body_at=52,
        body_bytes=100,
        is_background=True,
        keeps_events=True,
    )


def piece(
    first: int, last: int, epoch: int = 1, *, items: int = 0, left: Mapping[int, Mapping[str, object]] | None = None
) -> EventPiece:
    name = object_of(ONE, f"{epoch}-{first}")
    return EventPiece(response=ONE, epoch=epoch, first=first, last=last, object=name, items=items, open=left or {})


async def test_a_response_is_its_tenants(house: House) -> None:
    """It is found as it was stored, by its own tenant, until it expires; its id is taken."""
    one = stored(ONE, house.clock)
    await house.rows.add(one)
    assert await house.rows.find(ACME, ONE) == one
    assert await house.rows.find(GLOBEX, ONE) is None
    assert await house.rows.find(ACME, OTHER) is None
    with pytest.raises(Conflict):
        await house.rows.add(one)
    house.clock.advance(60.0)
    assert await house.rows.find(ACME, ONE) is None


async def test_only_the_holder_keeps_events(house: House) -> None:
    """An attempt that lost its job keeps nothing, and two attempts never keep the same number."""
    await house.rows.add(stored(ONE, house.clock))
    assert not await house.rows.append(piece(2, 4))
    await house.hold(ONE, 1)
    assert await house.rows.append(piece(2, 4, items=1, left={0: {"type": "message", "id": "msg"}}))
    await house.hold(ONE, 2)
    assert not await house.rows.append(piece(5, 6))
    assert not await house.rows.append(piece(4, 6, epoch=1))
    assert await house.rows.append(piece(5, 6, epoch=2, items=2))
    assert not await house.rows.append(piece(5, 9, epoch=2))
    assert [one.first for one in await house.rows.events(ONE, 0, newest_only=False)] == [2, 5]


async def test_the_next_attempt_knows_what_was_left(house: House) -> None:
    """Numbers go on after the last kept event, with its output items."""
    await house.rows.add(stored(ONE, house.clock))
    await house.hold(ONE, 1)
    assert await house.rows.begun(ONE) == Begun()
    left = {0: {"type": "message", "id": "msg"}}
    await house.rows.append(piece(2, 4, items=1, left=left))
    assert await house.rows.begun(ONE) == Begun(number=5, items=1, open=left)


async def test_pieces_are_read_from_a_number_on(house: House) -> None:
    """A piece that holds a later event comes whole; of the newest attempt alone if that is asked for."""
    await house.rows.add(stored(ONE, house.clock))
    for epoch, (first, last) in enumerate([(2, 4), (5, 7)], start=1):
        await house.hold(ONE, epoch)
        await house.rows.append(piece(first, last, epoch))
    assert [one.first for one in await house.rows.events(ONE, 3, newest_only=False)] == [2, 5]
    assert [one.first for one in await house.rows.events(ONE, 4, newest_only=False)] == [5]
    assert [one.first for one in await house.rows.events(ONE, 1, newest_only=True)] == [5]
    assert await house.rows.events(ONE, 7, newest_only=False) == []
    assert await house.rows.events(OTHER, 0, newest_only=False) == []


async def test_deletion_names_all_objects_once(house: House) -> None:
    """Another tenant's deletion finds nothing; afterwards no attempt keeps an event."""
    await house.rows.add(stored(ONE, house.clock))
    await house.hold(ONE, 1)
    await house.rows.append(piece(2, 4))
    assert await house.rows.delete(GLOBEX, ONE) is None
    assert set(await house.rows.delete(ACME, ONE) or ()) == {object_of(ONE), object_of(ONE, "1-2")}
    assert await house.rows.delete(ACME, ONE) is None
    assert not await house.rows.append(piece(5, 6))
    assert await house.rows.events(ONE, 0, newest_only=False) == []


async def test_expired_ones_stay_until_their_bytes_are_gone(house: House) -> None:
    """They are named with all of their objects, oldest first, until they are forgotten."""
    await house.rows.add(stored(ONE, house.clock, keep_s=1.0))
    await house.rows.add(stored(OTHER, house.clock, keep_s=30.0))
    await house.hold(ONE, 1)
    await house.rows.append(piece(2, 4))
    now, owner = house.clock.now() + 10.0, ONE[-16:]
    assert house.rows.kind == KIND
    (found,) = await house.rows.expired(now, 10)
    assert (found.owner, set(found.objects)) == (owner, {object_of(ONE), object_of(ONE, "1-2")})
    assert object_of(ONE) == object_id(KIND, owner)
    assert await house.rows.known([owner, "none"]) == {owner}
    await house.rows.forget([owner], now)
    assert await house.rows.expired(now, 10) == []
    assert await house.rows.known([owner, OTHER[-16:]]) == {OTHER[-16:]}


ENDED = "update job set state = 'succeeded', expires_at = $2, output_object = $3 where name = $1"


@pytest.mark.integration
async def test_jobs_go_with_their_responses(database: Database) -> None:
    """An expired response names its job's answer, and so does a job whose response was deleted before; both go."""
    clock = ManualClock()
    rows, jobs = PostgresStoredResponses(database, clock), PostgresJobs(database)
    for response in (ONE, OTHER):
        await rows.add(stored(response, clock, keep_s=1.0))
        await jobs.submit(job_of(response, clock), EnqueueLimits())
        await database.rows(HELD, response, 1)
        await database.rows(ENDED, response, clock.now() + 1.0, f"job/{response}/answer-1")
    await rows.delete(ACME, OTHER)
    now = clock.now() + 10.0
    found = {one.owner: one.objects for one in await rows.expired(now, 10)}
    assert set(found[ONE[-16:]]) == {object_of(ONE), f"job/{ONE}/answer-1"}
    assert found[OTHER[-16:]] == (f"job/{OTHER}/answer-1",)
    await rows.forget(list(found), now)
    assert await database.rows("select name from job") == []
    assert await rows.expired(now, 10) == []


def bill(epoch: int, cost: int) -> LedgerRow:
    return LedgerRow(
        request=RequestId(f"{ONE}-{epoch}"), tenant=ACME, key=KeyId("k"), version=VersionId("m@1"), digest="d",
        api=Api.RESPONSES, priority=Priority.BATCH, outcome=Outcome.CANCELLED, prompt_tokens=1, cached_tokens=0,
        output_tokens=cost, exact=True, gpu_s=1.0, cost=MicroUsd(cost), opened_at=1.0, closed_at=2.0,
    )  # fmt: skip


@pytest.mark.integration
async def test_a_job_costs_its_dearest_attempt(database: Database) -> None:
    """Lost and overruled attempts are billed for what they told, and each one only for what is beyond earlier ones."""
    clock, world = ManualClock(), PostgresWorld(database)
    rows, store, now = PostgresStoredResponses(database, clock), world.store, clock.now()
    await rows.add(stored(ONE, clock))
    await store.submit(job_of(ONE, clock), FREE)
    lost = await world.runner()
    await store.claim(lost, quota(1), now)
    assert await rows.append(replace(piece(2, 4), bill=bill(1, 50)))
    assert await rows.append(replace(piece(5, 6), bill=bill(1, 70)))
    await world.lose(lost, now)
    runner = await world.runner()
    (second,) = await store.claim(runner, quota(1), now)
    assert await rows.append(replace(piece(7, 8, 2), bill=bill(2, 60)))
    await store.put_back([back(second, at=now, row=bill(2, 100))])
    (third,) = await store.claim(runner, quota(1), now)
    assert await rows.append(replace(piece(9, 9, 3), bill=bill(3, 110)))
    await store.cancel(ACME, JobName(ONE), now)
    assert await store.tidy(now + 30.0) == 1
    assert await store.finish([ended(third, row=bill(3, 500))]) == frozenset()
    told = await database.rows("select outcome, cost, output_tokens from ledger order by request")
    assert list(map(tuple, told)) == [("internal", 70, 70), ("cancelled", 30, 100), ("cancelled", 10, 110)]


@pytest.mark.integration
async def test_a_lost_attempt_that_told_nothing_is_free(database: Database) -> None:
    """Also if an earlier one told something."""
    clock, world = ManualClock(), PostgresWorld(database)
    rows, now = PostgresStoredResponses(database, clock), clock.now()
    await rows.add(stored(ONE, clock))
    await world.store.submit(job_of(ONE, clock), FREE)
    for epoch in (1, 2):
        runner = await world.runner()
        await world.store.claim(runner, quota(1), now)
        if epoch == 1:
            assert await rows.append(replace(piece(2, 4), bill=bill(1, 50)))
        await world.lose(runner, now)
    told = await database.rows("select cost, output_tokens from ledger order by request")
    assert list(map(tuple, told)) == [(50, 50), (0, 0)]


@pytest.mark.integration
async def test_a_deleted_response_frees_its_idempotency_key(database: Database) -> None:
    """Also while its job still runs: a repeated submit makes a new response."""
    clock = ManualClock()
    rows, jobs = PostgresStoredResponses(database, clock), PostgresJobs(database)
    await rows.add(stored(ONE, clock))
    await jobs.submit(replace(job_of(ONE, clock), idempotency="k"), EnqueueLimits())
    await database.rows(HELD, ONE, 1)
    assert await jobs.keyed(ACME, "k") is not None
    await rows.delete(ACME, ONE)
    assert await jobs.keyed(ACME, "k") is None


@pytest.mark.integration
async def test_a_deletion_and_a_piece_lock_in_one_order(database: Database, database_dsn: str) -> None:
    """While an attempt keeps a piece of its events, its response's deletion waits for it, and neither is ended."""
    clock = ManualClock()
    rows = PostgresStoredResponses(database, clock)
    await PostgresJobs(database).submit(replace(job_of(ONE, clock), idempotency="k"), EnqueueLimits())
    await rows.add(stored(ONE, clock))
    keeps = await asyncpg.connect(database_dsn)
    async with keeps.transaction():
        await keeps.execute("select 1 from job where name = $1 for share", ONE)
        deletion = asyncio.create_task(rows.delete(ACME, ONE))
        async with asyncio.timeout(30):
            while not await database.rows("select 1 from pg_stat_activity where wait_event_type = 'Lock'"):
                await database.rows("select pg_sleep(0.05)")
        await keeps.execute("update stored_response set event_bytes = event_bytes + 1 where id = $1", ONE)
    await keeps.close()
    assert await deletion == [object_of(ONE)]


@pytest.mark.integration
async def test_what_is_kept_is_the_sum_of_rows(database: Database) -> None:
    """After each step; above the plan's bound nothing is added, at once either, and what is gone counts no more."""
    clock, world = ManualClock(), PostgresWorld(database)
    rows, now = PostgresStoredResponses(database, clock), clock.now()
    one = replace(stored(ONE, clock), begin_bytes=100, is_background=True)
    await rows.add(one)
    await world.store.submit(job_of(ONE, clock), FREE)
    await database.rows(HELD, ONE, 1)
    assert await rows.append(replace(piece(2, 4), size_bytes=50))
    kept = await world.store.kept(ACME, now)
    assert kept == 3 * ROW_BYTES + 100 + 50 + job_of(ONE, clock).input.size
    plain = replace(stored(ONE, clock), begin_bytes=0, body_bytes=1000, is_background=False, keeps_events=False)
    names = [ResponseId(f"resp_{n:020d}") for n in range(10, 16)]
    sync = [replace(plain, id=name, object=object_of(name)) for name in names]
    size = ROW_BYTES + 1000 + plain.input_bytes
    added = await asyncio.gather(*(rows.add(each, kept + 2 * size) for each in sync), return_exceptions=True)
    assert [type(each) for each in added if each is not None] == [NoFileRoom] * 4
    with pytest.raises(ExceedsLimit):
        await rows.add(replace(plain, id=OTHER, object=object_of(OTHER)), size - 1)
    await rows.delete(ACME, ONE)
    assert await world.is_consistent()
    await rows.forget([owner_of(each.object)[1] for each in sync], now)
    assert await world.is_consistent()
    assert await world.store.kept(ACME, now) == ROW_BYTES + job_of(ONE, clock).input.size


@pytest.mark.integration
async def test_files_and_others_share_a_bound(database: Database) -> None:
    """An upload that gave no sign of life for too long counts no more, though its row is there."""
    clock, world = ManualClock(), PostgresWorld(database)
    rows, files, now = PostgresStoredResponses(database, clock), PostgresFiles(database), clock.now()
    await rows.add(stored(ONE, clock))
    kept = await world.store.kept(ACME, now)
    file = StoredFile(
        id=FileId("file-1"), tenant=ACME, key=KeyId("k"), name="n", purpose=FilePurpose.BATCH, size_bytes=10,
        created_at=now, expires_at=now + 5, object=object_id("file", "file-1"),
    )  # fmt: skip
    with pytest.raises(NoFileRoom):
        await files.begin(file, FileLimits(size_bytes=kept + ROW_BYTES + 9))
    await files.begin(file, FileLimits(size_bytes=kept + ROW_BYTES + 10))
    assert await world.store.kept(ACME, now) == kept + ROW_BYTES + 10
    assert await world.store.kept(ACME, now + 5) == kept
    await files.abandon(file.id, now)
    assert await world.store.kept(ACME, now) == kept
    assert await world.is_consistent()
