"""What the store of files promises, held against a real Postgres."""

import asyncio
from dataclasses import replace

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.files import PostgresFiles
from penstock.domain.errors import Conflict, ExceedsLimit, UnknownObject
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.file import (
    FileLimits,
    FilePage,
    FilePurpose,
    FileState,
    StoredFile,
    file_id,
    object_of,
)
from penstock.domain.jobs.payload import ROW_BYTES, Expired
from penstock.gateway.listener.errors import row_of

pytestmark = pytest.mark.integration
ACME, SHOP = TenantId("acme"), TenantId("shop")
UNBOUNDED = FileLimits()
NOW = 1000.0


@pytest.fixture
def store(database: Database) -> PostgresFiles:
    return PostgresFiles(database)


def file(number: int, tenant: TenantId = ACME, size: int = 10, key: str = "") -> StoredFile:
    made = file_id(NOW + number, bytes(9) + bytes([number]))
    return StoredFile(
        id=made,
        tenant=tenant,
        key=KeyId("k"),
        name="in.jsonl",
        purpose=FilePurpose.BATCH,
        size_bytes=size,
        created_at=NOW + number,
        expires_at=NOW + 10_000,
        object=object_of(made),
        idempotency=key,
        fingerprint=f"print {number}" if key else "",
    )


def began(one: StoredFile) -> StoredFile:
    return replace(one, state=FileState.UPLOADING, expires_at=NOW + 100, name="", idempotency="", fingerprint="")


async def keep(store: PostgresFiles, one: StoredFile, limits: FileLimits = UNBOUNDED) -> StoredFile:
    await store.begin(began(one), limits)
    await store.finish(one, limits, NOW)
    return one


async def test_a_file_is_there_once_it_is_finished(store: PostgresFiles) -> None:
    """An upload is no file for anybody; a finished one is its tenant's alone, as it was described."""
    one = file(1)
    await store.begin(began(one), UNBOUNDED)
    for tenant in (ACME, SHOP):
        with pytest.raises(UnknownObject):
            await store.find(tenant, one.id, NOW)
    assert await store.page(ACME, FilePage(limit=9), NOW) == ()
    await store.finish(one, UNBOUNDED, NOW)
    assert await store.find(ACME, one.id, NOW) == one
    assert await store.page(ACME, FilePage(limit=9), NOW) == (one,)
    assert await store.page(SHOP, FilePage(limit=9), NOW) == ()
    for act in (store.find, store.delete):
        with pytest.raises(UnknownObject):
            await act(SHOP, one.id, NOW)
        with pytest.raises(UnknownObject):
            await act(ACME, one.id, NOW + 10_000)


async def test_pages_follow_each_other(store: PostgresFiles) -> None:
    """Each file is on exactly one page, in both orders, also if those between were deleted meanwhile."""
    files = [await keep(store, file(number)) for number in range(5)]
    assert await store.page(ACME, FilePage(limit=2), NOW) == (files[4], files[3])
    await store.delete(ACME, files[3].id, NOW)
    assert await store.page(ACME, FilePage(limit=2, after=files[3].id), NOW) == (files[2], files[1])
    oldest = FilePage(limit=2, is_oldest_first=True)
    assert await store.page(ACME, oldest, NOW) == (files[0], files[1])
    assert await store.page(ACME, replace(oldest, after=files[1].id), NOW) == (files[2], files[4])
    assert await store.page(ACME, FilePage(limit=9, purpose="batch_output"), NOW) == ()


async def test_bounds_count_uploads_and_are_released(store: PostgresFiles) -> None:
    """Files and bytes of a tenant are bounded together; what was deleted, expired or broke off counts no more."""
    limits = FileLimits(files=3, size_bytes=100 + 3 * ROW_BYTES)
    first = await keep(store, file(1, size=60), limits)
    await store.begin(began(file(2, size=40)), limits)
    with pytest.raises(NoFileRoom) as refused:
        await store.begin(began(file(3, size=1)), limits)
    assert refused.value.reason == "tenant_file_bytes"
    await store.begin(began(file(3, size=0)), limits)
    with pytest.raises(NoFileRoom) as refused:
        await store.begin(began(file(4, size=0)), limits)
    assert refused.value.reason == "tenant_files"
    await store.begin(began(file(5, tenant=SHOP, size=100)), limits)
    with pytest.raises(NoFileRoom):
        await store.finish(file(3, size=1), limits, NOW)  # it came without a length
    await store.delete(ACME, first.id, NOW)
    await store.abandon(file(3).id, NOW)
    await keep(store, file(6, size=60), limits)
    late = replace(began(file(7, size=40)), created_at=NOW + 101)  # the upload of 40 bytes gave no sign for too long
    await store.begin(late, limits)


async def test_no_refused_upload_is_worth_a_repetition(store: PostgresFiles) -> None:
    """Room comes by deletion, and never for a file above the whole bound: SDKs would send 200 MB three times."""
    limits = FileLimits(files=1, size_bytes=100 + ROW_BYTES)
    with pytest.raises(ExceedsLimit) as large:
        await store.begin(began(file(1, size=101)), limits)
    await keep(store, file(2, size=60), limits)
    with pytest.raises(NoFileRoom) as full:
        await store.begin(began(file(3, size=1)), limits)
    assert [row_of(error.value).retryable for error in (large, full)] == [False, False]


async def test_bounds_hold_for_uploads_at_once(store: PostgresFiles) -> None:
    """Of many uploads that begin together as many are let in as there is room for."""
    limits = FileLimits(files=4)
    begun = await asyncio.gather(
        *[store.begin(began(file(number)), limits) for number in range(12)], return_exceptions=True
    )
    assert [type(one) for one in begun if one is not None] == [NoFileRoom] * 8


async def test_a_key_has_one_file(store: PostgresFiles) -> None:
    """The second upload under an idempotency key is a conflict, until the first is deleted or expired."""
    first = await keep(store, file(1, key="k"))
    assert await store.keyed(ACME, "k", NOW) == first
    assert await store.keyed(SHOP, "k", NOW) is None
    await keep(store, file(2, tenant=SHOP, key="k"))
    with pytest.raises(Conflict):
        await keep(store, file(3, key="k"))
    await store.delete(ACME, first.id, NOW)
    assert await store.keyed(ACME, "k", NOW) is None
    short = replace(file(4, key="k"), expires_at=NOW + 5)
    await keep(store, short)
    await store.begin(began(file(5)), UNBOUNDED)
    await store.finish(file(5, key="k"), UNBOUNDED, NOW + 6)
    assert await store.keyed(ACME, "k", NOW + 6) == file(5, key="k")


async def test_signs_of_life(store: PostgresFiles) -> None:
    """An upload lives by its signs, and one that was taken for dead can't end."""
    one = file(1)
    await store.begin(began(one), UNBOUNDED)
    await store.touch(one.id, NOW + 300)
    assert await store.expired(NOW + 200, 9) == ()
    await store.forget([one.id], NOW + 200)
    assert await store.known([one.id, "file-0"]) == {one.id}
    await store.forget([one.id], NOW + 300)
    with pytest.raises(UnknownObject):
        await store.touch(one.id, NOW + 400)
    with pytest.raises(UnknownObject):
        await store.finish(one, UNBOUNDED, NOW)


async def test_what_is_over_is_told_until_it_is_forgotten(store: PostgresFiles) -> None:
    """Deleted, expired and broken-off files name their objects, bounded, until their rows go."""
    files = [await keep(store, file(number)) for number in range(4)]
    await store.delete(ACME, files[0].id, NOW)
    await store.begin(began(file(7)), UNBOUNDED)
    await store.abandon(file(7).id, NOW)
    gone = {Expired(one.id, (one.object,)) for one in (files[0], file(7))}
    assert set(await store.expired(NOW, 9)) == gone
    assert set(await store.expired(NOW + 10_000, 99)) == gone | {Expired(one.id, (one.object,)) for one in files[1:]}
    assert len(await store.expired(NOW + 10_000, 2)) == 2
    await store.forget([one.owner for one in gone], NOW)
    await store.forget([files[1].id], NOW)
    assert await store.expired(NOW, 9) == ()
    assert await store.known([one.id for one in files]) == {one.id for one in files[1:]}
