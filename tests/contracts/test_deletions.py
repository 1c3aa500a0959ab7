"""Deletions on a real Postgres and a folder: everything, one thing, one user, what is older; cut off anywhere."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from penstock.audit.segments import covered
from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.deletions import HeardDeletions
from penstock.connectors.signing.heads import KnownKeys
from penstock.connectors.signing.keys import PUBLIC
from penstock.control.receipts import RECEIPT_TYPE, Receipt
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.deletion import Counts, DeletionId, Scope, user_mark
from penstock.domain.jobs.errors import PayloadGone
from penstock.domain.jobs.payload import object_id
from tests.support.clock import ManualClock
from tests.support.stores.stored_things import PLATFORM_KEY, Stored

pytestmark = pytest.mark.integration
ACME, SHOP = TenantId("acme"), TenantId("shop")


@pytest.fixture
def stored(database: Database, tmp_path: Path, clock: ManualClock) -> Stored:
    return Stored(database, tmp_path, clock)


async def swept(stored: Stored, deletion: DeletionId) -> Counts:
    """Run a runner's and a gateway's and a controller's part; return the counts of the receipt."""
    for _ in range(3):
        await stored.erasing().step(stored.clock.now())
    await stored.heard()
    await stored.receipts().step()
    return (await stored.done(deletion)).counts


async def test_nothing_of_a_deleted_tenant_opens(stored: Stored, clock: ManualClock) -> None:
    """Keys are gone at once, then bytes and rows; a copy of the sealed bytes does not open; other tenants keep all."""
    wanted, others = await stored.everything(ACME), await stored.everything(SHOP)
    clock.advance(1)
    copy = stored.folder / "copy"
    shutil.copytree(stored.folder / "payloads", copy)
    deletion = await stored.ask(Scope(ACME))
    fresh = stored.process()
    mine = [name for name, tenant in stored.objects.items() if tenant == ACME]
    for name in mine:
        with pytest.raises(PayloadGone):
            await fresh.get(ACME, name)
    assert await swept(stored, deletion) == wanted._replace(keys=1)
    assert await stored.left(ACME) == 0
    for name in mine:
        with pytest.raises(PayloadGone):
            await fresh.get(ACME, name)
    shutil.copytree(copy, stored.folder / "payloads", dirs_exist_ok=True)
    for name in mine:
        with pytest.raises(PayloadGone):
            await fresh.get(ACME, name)
    for name in stored.objects.keys() - set(mine):
        await fresh.get(SHOP, name)
    assert (await stored.left(SHOP), others.jobs) == (7, 1)


async def test_a_receipt_is_signed_once_and_noted(stored: Stored, clock: ManualClock) -> None:
    """It names scope and counts, verifies with the platform's public key, and can't be changed afterwards."""
    await stored.everything(ACME)
    clock.advance(1)
    deletion = await stored.ask(Scope(ACME))
    counts = await swept(stored, deletion)
    await asyncio.gather(stored.receipts().step(), stored.receipts().step())
    done = await stored.done(deletion)
    told = msgspec.json.decode(done.receipt, type=Receipt)
    assert (told.tenant, told.counts, told.region) == ("acme", counts._asdict(), "eu")
    keys = KnownKeys([(stored.folder / "signing" / PUBLIC).read_bytes()])
    assert keys.has_signed(told.key, covered(done.receipt.encode(), RECEIPT_TYPE), done.signature)
    other = done.receipt.replace("acme", "shop").encode()
    assert not keys.has_signed(told.key, covered(other, RECEIPT_TYPE), done.signature)
    assert len(await stored.acts("privacy.delete")) == len(await stored.acts("privacy.deleted")) == 1
    for statement in ("update privacy_deletion set receipt = ''", "delete from privacy_deletion"):
        with pytest.raises(Conflict):
            await stored.database.rows(statement)


class Killed(BaseException):
    """The process ends here."""


def dying(real: Callable[..., Any], steps: Iterator[int]) -> Callable[..., Any]:
    def step(*arguments: object) -> Any:  # noqa: ANN401  as the real one
        if next(steps, None) is None:
            raise Killed
        return real(*arguments)

    return step


async def test_a_deletion_killed_at_every_step_is_carried_on(
    stored: Stored, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off before each statement and each deleted object, another process ends it, and the counts are right."""
    tried = 0
    for cut in count(1):
        wanted = await stored.everything(ACME, cut)
        clock.advance(1)
        deletion, steps = await stored.ask(Scope(ACME)), iter(range(cut - 1))
        with monkeypatch.context() as patched:
            for kind, names in ((Session, "rows row run"), (Database, "rows row"), (FolderObjects, "delete")):
                for name in names.split():
                    patched.setattr(kind, name, dying(getattr(kind, name), steps))
            try:
                await stored.erasing().step(clock.now())
                await stored.receipts().step()
            except Killed:
                tried += 1
            else:
                break
        assert await swept(stored, deletion) == wanted._replace(keys=1)
        assert await stored.left(ACME) == 0
        clock.advance(1)
    assert tried > 20


async def test_two_at_once_are_one(stored: Stored, clock: ManualClock) -> None:
    """Asked for twice it is one deletion; two runners that sweep it count each row once."""
    wanted = await stored.everything(ACME)
    clock.advance(1)
    deletion = await stored.ask(Scope(ACME))
    assert await stored.ask(Scope(ACME)) == deletion
    await asyncio.gather(*(stored.erasing().step(clock.now()) for _ in range(4)))
    assert await swept(stored, deletion) == wanted._replace(keys=1)
    assert await stored.ask(Scope(ACME)) != deletion


@pytest.mark.parametrize("named", ["jobacme00000000000001", "jobacme00000000000001-1", "resp_acme000000000001"])
async def test_one_thing_is_deleted_alone(stored: Stored, clock: ManualClock, named: str) -> None:
    """A job by its name or request, or a response; the tenant's keys and other things stay."""
    await stored.everything(ACME)
    clock.advance(1)
    counts = await swept(stored, await stored.ask(Scope(ACME, request=named)))
    assert (counts.keys, counts.jobs + counts.responses, await stored.left(ACME)) == (0, 1, 6)


@pytest.mark.parametrize("named", ["batch_acme1", "file-inacme1"])
async def test_a_batch_goes_with_its_files(stored: Stored, clock: ManualClock, named: str) -> None:
    """Named itself or by its input: lines, results and input; an input that another batch reads stays."""
    await stored.everything(ACME)
    clock.advance(1)
    counts = await swept(stored, await stored.ask(Scope(ACME, request=named)))
    assert (counts.batches, counts.lines, counts.files, await stored.left(ACME)) == (1, 2, 2, 2)


async def test_an_input_that_another_batch_reads_stays(stored: Stored, clock: ManualClock) -> None:
    """Its other reader was not named."""
    await stored.batch(ACME, 1, "u")
    await stored.batch(ACME, 2, "u")
    await stored.database.rows("update batch set input_file = 'file-inacme1'")
    clock.advance(1)
    counts = await swept(stored, await stored.ask(Scope(ACME, request="batch_acme1")))
    assert (counts.batches, counts.files) == (1, 1)
    assert await stored.payloads.get(ACME, object_id("file", "file-inacme1"))


async def test_a_users_requests_are_found_by_reading_them(stored: Stored, clock: ManualClock) -> None:
    """Of two users one is left; the name is in no row, and a batch without its input is told as not attributed."""
    wanted, _ = await stored.everything(ACME, 1, "jane@example.com"), await stored.everything(ACME, 2, "john")
    await stored.batch(ACME, 3, "john")
    await stored.database.rows("delete from file where id = 'file-inacme3'")
    clock.advance(1)
    mark = user_mark(PLATFORM_KEY, ACME, "jane@example.com")
    deletion = await stored.ask(Scope(ACME, user_mark=mark))
    assert await swept(stored, deletion) == wanted._replace(unattributed=1)
    assert await stored.left(ACME) == 11
    rows = await stored.database.rows("select * from privacy_deletion")
    assert "jane" not in str([tuple(row) for row in rows])


async def test_with_a_users_response_go_those_that_continue_from_it(stored: Stored, clock: ManualClock) -> None:
    """A later turn has the text of its earlier ones, whatever it says of a user and in whatever order they are read."""
    last, first, between, other = (f"resp_{ACME}{number:012d}" for number in (1, 2, 3, 4))
    await stored.response(ACME, 2, "jane")
    await stored.response(ACME, 3, None, first)
    await stored.response(ACME, 1, "john", between)
    await stored.response(ACME, 4, None, last + "0")
    clock.advance(1)
    counts = await swept(stored, await stored.ask(Scope(ACME, user_mark=user_mark(PLATFORM_KEY, ACME, "jane"))))
    assert counts.responses == 3
    assert [row["id"] for row in await stored.database.rows("select id from stored_response")] == [other]


async def test_of_a_user_that_users_texts_go(stored: Stored, clock: ManualClock) -> None:
    """Also one that can't be read, and that of a request which continues from the user's; their jobs stay."""
    john = await stored.job(ACME, 9, "john")
    await stored.response(ACME, 1, "jane")
    await stored.response(ACME, 2, None, f"resp_{ACME}{1:012d}")
    for request, users in (("r1", ["jane"]), ("r2", ["john", "jane"]), ("r3", ["john"]), ("r4", []), (f"{john}-1", [])):
        await stored.match(ACME, request, *users)
    await stored.match(ACME, f"{ACME}{2:012d}")
    await stored.match(SHOP, "r5", "jane")
    await stored.database.rows("update intervention_text set sealed = 'text' where request = $1", f"{john}-1")
    clock.advance(1)
    counts = await swept(stored, await stored.ask(Scope(ACME, user_mark=user_mark(PLATFORM_KEY, ACME, "jane"))))
    assert (counts.texts, counts.responses, counts.jobs) == (4, 2, 0)
    assert await stored.matches() == ["r3", "r4", "r5"]
    await stored.match(ACME, "r6", "john")
    assert "r6" in await stored.matches()


@pytest.mark.parametrize(
    ("named", "goes"),
    [
        ("chatcmpl-r1", "r1"),
        ("resp_acme1", "acme1"),
        ("batch_acme1", "batch_acme1-2-7"),
        ("file-inacme1", "batch_acme1-1-3"),
    ],
)
async def test_with_one_thing_go_its_texts(stored: Stored, clock: ManualClock, named: str, goes: str) -> None:
    """Of a request by the id that its caller saw, of a batch by its lines."""
    await stored.batch(ACME, 1, "u")
    for one in (goes, "another"):
        await stored.match(ACME, one)
    clock.advance(1)
    assert (await swept(stored, await stored.ask(Scope(ACME, request=named)))).texts == 1
    assert await stored.matches() == ["another"]


async def test_a_spool_that_comes_late_brings_no_text_of_what_was_deleted(stored: Stored, clock: ManualClock) -> None:
    """Not of the request, and not of a line that went with its batch; of others, and of what came after it."""
    clock.advance(9)
    await stored.ask(Scope(ACME, request="chatcmpl-r1"))
    for tenant, request in ((ACME, "r1"), (ACME, "batch_req_07-3"), (ACME, "r2"), (SHOP, "r1b")):
        await stored.match(tenant, request, ago_s=5.0)
    await stored.match(ACME, "batch_req_08-1")
    assert await stored.matches() == ["batch_req_08-1", "r1b", "r2"]


async def test_what_is_younger_stays(stored: Stored, clock: ManualClock) -> None:
    """Things made at that second or later are no part of it."""
    wanted = await stored.everything(ACME, 1)
    clock.advance(10)
    until = clock.now()
    await stored.everything(ACME, 2)
    deletion = await stored.ask(Scope(ACME, before=until), until=until)
    assert await swept(stored, deletion) == wanted
    assert await stored.left(ACME) == 7


async def test_what_runs_is_stopped_and_waited_for(stored: Stored, clock: ManualClock) -> None:
    """Its runner is asked to stop; the receipt comes after its end, with its answer counted."""
    name = await stored.job(ACME, 1, "u")
    await stored.database.rows("update job set state = 'running', ended_at = 0, expires_at = 0 where name = $1", name)
    clock.advance(1)
    deletion = await stored.ask(Scope(ACME))
    assert (await swept(stored, deletion)).jobs == 0
    (row,) = await stored.database.rows("select cancel_asked_at from job where name = $1", name)
    assert (row["cancel_asked_at"], (await stored.done(deletion)).receipt) == (clock.now(), "")
    await stored.database.rows("update job set state = 'cancelled' where name = $1", name)
    assert (await swept(stored, deletion)).jobs == 1
    assert (await stored.done(deletion)).receipt


async def test_a_gateway_drops_answers_once_and_waits_for_their_store(
    stored: Stored, clock: ManualClock, database_dsn: str
) -> None:
    """Without a gateway's word there is no receipt; a store that is away is asked again."""
    calls: list[str] = []

    async def forget(tenant: TenantId) -> int:
        calls.append(tenant)
        if len(calls) == 1:
            raise StoreUnavailable
        return 3

    deletion = await stored.ask(Scope(ACME))
    clock.advance(1)
    await stored.erasing().step(clock.now())
    await stored.receipts().step()
    assert not (await stored.done(deletion)).receipt
    heard, connection = HeardDeletions(forget, clock.now()), await asyncpg.connect(database_dsn)
    for _ in range(3):
        await heard.look(connection)
    await connection.close()
    await stored.receipts().step()
    done = await stored.done(deletion)
    assert (calls, done.counts.answers, bool(done.receipt)) == ([ACME, ACME], 3, True)
