"""What every payload store promises, held against a folder and against S3 over HTTP."""

import asyncio
import os
import re
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from penstock.connectors.payloads import store as sealed_store
from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import Objects, SealedPayloads
from penstock.connectors.s3 import objects as s3_objects
from penstock.connectors.s3.objects import S3Objects
from penstock.domain.errors import Conflict, InvalidField, StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import PayloadGone, PayloadUnreadable, StorageFull
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import PayloadStore, checked, object_id
from penstock.sealing.objects import SEGMENT_BYTES
from tests.support.sealing import FixedKeys, KeysAway
from tests.support.stores.s3_server import new_bucket, s3_server

ACME, SHOP = TenantId("acme"), TenantId("shop")
NAME = object_id("file", "file-1")
PART_BYTES = 5 << 20
LARGE = bytes(range(256)) * 4096 * 6 + b"end"
"""More than one part of S3's, and more than one flush."""
SECRET = b"the patient's diagnosis"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@dataclass
class Place:
    objects: Objects
    folder: Path | None = None
    bucket: str = ""
    endpoint: str = ""

    def store(self, *keys: bytes) -> SealedPayloads:
        return SealedPayloads(self.objects, FixedKeys(*keys))

    def raw(self) -> dict[str, bytes]:
        """Return everything that lies in the place, by its name there."""
        if self.folder is not None:
            return {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        client = boto3.client("s3", endpoint_url=self.endpoint)
        found = client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {one["Key"]: client.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read() for one in found}

    def overwrite(self, name: str, data: bytes) -> None:
        if self.folder is not None:
            Path(name).write_bytes(data)
        else:
            boto3.client("s3", endpoint_url=self.endpoint).put_object(Bucket=self.bucket, Key=name, Body=data)

    def drafts(self) -> int:
        if self.folder is not None:
            return len([name for name in self.raw() if Path(name).name.startswith(".")])
        uploads = boto3.client("s3", endpoint_url=self.endpoint).list_multipart_uploads(Bucket=self.bucket)
        return len(uploads.get("Uploads", []))


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, endpoint: str, tmp_path: Path) -> Place:
    if request.param == "folder":
        folder = tmp_path / "payloads"
        return Place(FolderObjects(folder), folder=folder)
    bucket = new_bucket(endpoint)
    made = S3Objects(f"s3://{bucket}/some/prefix", endpoint=endpoint, part_bytes=PART_BYTES)
    return Place(made, bucket=bucket, endpoint=endpoint)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[PayloadStore]:
    made = place.store()
    yield made
    made.close()


async def test_an_object_comes_back_whole_and_in_ranges(store: PayloadStore) -> None:
    """What was written, in whatever pieces, is read whole and from any offset."""
    async with store.writer(ACME, NAME) as writer:
        for at in range(0, len(LARGE), 100_000):
            await writer.write(LARGE[at : at + 100_000])
        assert await writer.commit() == len(LARGE)
    assert await store.get(ACME, NAME) == LARGE
    assert await store.get(ACME, NAME, SEGMENT_BYTES - 3, 9) == LARGE[SEGMENT_BYTES - 3 :][:9]
    assert await store.get(ACME, NAME, len(LARGE) - 3, 100) == b"end"
    pieces = [piece async for piece in store.read(ACME, NAME, 5)]
    assert b"".join(pieces) == LARGE[5:]
    assert max(map(len, pieces)) <= sealed_store.BLOCK_SEGMENTS * SEGMENT_BYTES


async def test_an_empty_object_is_one(store: PayloadStore) -> None:
    """No bytes are an object, too."""
    await store.put(ACME, NAME, b"")
    assert await store.get(ACME, NAME) == b""


async def test_nothing_is_seen_before_it_is_whole(store: PayloadStore, place: Place) -> None:
    """Until its commit an object is not there for anybody."""
    async with store.writer(ACME, NAME) as writer:
        await writer.write(LARGE)
        with pytest.raises(PayloadGone):
            await store.get(ACME, NAME)
        assert [group async for group in store.names(time.time() + 60)] == []
        await writer.commit()
    assert [group async for group in store.names(time.time() + 60)] == [(NAME,)]
    assert [group async for group in store.names(time.time() - 60)] == []
    assert place.drafts() == 0


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_writer_that_breaks_off_leaves_nothing(
    store: PayloadStore, place: Place, error: type[BaseException]
) -> None:
    """A writer that fails, or is cancelled, leaves no byte; the name stays free."""

    async def break_off() -> None:
        async with store.writer(ACME, NAME) as writer:
            await writer.write(LARGE)
            raise error

    with pytest.raises(error):
        await break_off()
    assert (place.raw(), place.drafts()) == ({}, 0)
    await store.put(ACME, NAME, b"again")
    assert await store.get(ACME, NAME) == b"again"


async def test_a_name_is_written_once(store: PayloadStore, place: Place) -> None:
    """A second writer of a name is refused and changes nothing, whichever came first."""
    async with store.writer(ACME, NAME) as late:
        await late.write(LARGE)
        await store.put(ACME, NAME, b"first")
        with pytest.raises(Conflict):
            await late.commit()
    with pytest.raises(Conflict):
        await store.put(ACME, NAME, b"second")
    assert await store.get(ACME, NAME) == b"first"
    assert place.drafts() == 0


async def test_what_is_deleted_is_gone(store: PayloadStore, place: Place) -> None:
    """Deleted bytes are nowhere, and deleting again is no error."""
    await store.put(ACME, NAME, SECRET)
    for _ in range(2):
        await store.delete(NAME)
    with pytest.raises(PayloadGone):
        await store.get(ACME, NAME)
    assert place.raw() == {}


async def test_other_tenants_and_keys_read_nothing(store: PayloadStore, place: Place) -> None:
    """Bytes open for their tenant alone, under keys that the platform still has."""
    await store.put(ACME, NAME, SECRET)
    assert not any(SECRET in data for data in place.raw().values())
    with pytest.raises(PayloadUnreadable):
        await store.get(SHOP, NAME)
    for keys in [(b"o" * 32,), (b"o" * 32, b"p" * 32)]:
        with pytest.raises(PayloadUnreadable):
            await place.store(*keys).get(ACME, NAME)
    assert await place.store(b"o" * 32, b"k" * 32).get(ACME, NAME) == SECRET


@pytest.mark.parametrize("left", [0, 10, 20, 30, 1000])
async def test_damaged_objects_are_refused(store: PayloadStore, place: Place, left: int) -> None:
    """An object that was cut off is refused in words."""
    await store.put(ACME, NAME, LARGE[:2000])
    [(name, data)] = place.raw().items()
    place.overwrite(name, data[:left])
    with pytest.raises(PayloadUnreadable):
        await store.get(ACME, NAME)


async def test_rests_of_crashed_writers_are_swept(store: PayloadStore, place: Place) -> None:
    """A draft whose process died is removed once it is old, and whole objects stay."""
    await store.put(ACME, NAME, b"whole")
    crashed = place.objects.begin("file/file-2")
    crashed.write(LARGE)
    assert place.drafts() == 1
    assert await store.sweep(1.0) == 0  # moto says that all uploads began in 2010
    assert await store.sweep(time.time() + 60) == 1
    assert place.drafts() == 0
    assert await store.get(ACME, NAME) == b"whole"
    crashed.abort()


@pytest.mark.parametrize("name", ["", "file", "../x", "file/../x", "file/.x", "/file/x", "file//x", "f/" + "x" * 300])
async def test_names_lead_nowhere_else(store: PayloadStore, name: str) -> None:
    """A name that could mean another path is refused."""
    with pytest.raises(InvalidField):
        checked(name)
    with pytest.raises(InvalidField):
        await store.put(ACME, ObjectId(name), b"")
    with pytest.raises(InvalidField):
        await store.delete(ObjectId(name))


async def test_writers_beside_each_other(store: PayloadStore) -> None:
    """Many objects at once keep their own bytes."""
    names = [object_id("job", f"job_{number}", "input") for number in range(20)]
    await asyncio.gather(*[store.put(ACME, name, name.encode() * 1000) for name in names])
    found = await asyncio.gather(*[store.get(ACME, name) for name in names])
    assert found == [name.encode() * 1000 for name in names]


async def test_files_are_private(tmp_path: Path) -> None:
    """Folders and files of the home belong to their owner alone, whatever the umask."""
    before = os.umask(0)
    try:
        await SealedPayloads(FolderObjects(tmp_path / "payloads"), FixedKeys()).put(ACME, NAME, b"x")
    finally:
        os.umask(before)
    assert modes_in(tmp_path) == {0o700, 0o600}


def modes_in(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of one megabyte; skip if mounting is not allowed."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


async def test_a_full_disk_is_said_and_leaves_nothing(small_disk: Path) -> None:
    """A disk without room refuses with words, keeps what was whole, and has room again after the refusal."""
    folder = small_disk / "payloads"
    store = SealedPayloads(FolderObjects(folder), FixedKeys())
    await store.put(ACME, NAME, b"x" * 300_000)
    for _ in range(2):
        with pytest.raises(StorageFull) as refused:
            await store.put(ACME, object_id("file", "file-2"), LARGE)
        assert not re.search(r"\d|bytes", refused.value.message)
    assert len(list(folder.rglob("*/*"))) == 1
    assert await store.get(ACME, NAME) == b"x" * 300_000
    await store.put(ACME, object_id("file", "file-3"), b"y" * 300_000)


async def test_s3_that_is_away_is_said() -> None:
    """A bucket that can't be reached is a store that is away, not a bug."""
    away = SealedPayloads(S3Objects("s3://b/p", endpoint="http://127.0.0.1:9", region="eu-central-1"), FixedKeys())
    with pytest.raises(StoreUnavailable):
        await away.get(ACME, NAME)


async def test_a_repeated_put_finds_its_own_bytes(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put whose answer was lost is repeated by the client library; its own object is no conflict."""
    bucket = new_bucket(endpoint)
    objects = S3Objects(f"s3://{bucket}", endpoint=endpoint, part_bytes=PART_BYTES)
    whole = s3_objects._Draft._complete

    def lost(draft: s3_objects._Draft) -> None:
        whole(draft)
        whole(draft)

    monkeypatch.setattr(s3_objects._Draft, "_complete", lost)
    await SealedPayloads(objects, FixedKeys()).put(ACME, NAME, b"once")
    assert await SealedPayloads(objects, FixedKeys()).get(ACME, NAME) == b"once"


async def test_without_a_key_nothing_is_written(place: Place) -> None:
    """While tenants' keys can't be had, writing and reading are refused as an outage, and nothing lies in the clear."""
    await place.store().put(ACME, NAME, SECRET)
    before = place.raw()
    refusing = SealedPayloads(place.objects, KeysAway())
    with pytest.raises(StoreUnavailable):
        await refusing.put(ACME, object_id("file", "file-2"), SECRET)
    with pytest.raises(StoreUnavailable):
        await refusing.get(ACME, NAME)
    assert place.raw() == before
    assert place.drafts() == 0
