"""What every artifact store promises, held against a folder and against S3 over HTTP."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.folder.store import FolderStore
from penstock.connectors.s3.store import S3Store
from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.packaging.packing import Publishing, describe, measure, publish
from penstock.packaging.ports import ArtifactStore
from tests.support.models.versions import CHOICES, Home, model_folder, sha256
from tests.support.stores.s3_server import new_bucket, s3_server

BLOB = bytes(range(256)) * 40
KEY = sha256(BLOB)
OTHER = sha256(b"something else")
Damage = Callable[[str, bytes], None]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Run one S3 server for this module."""
    with s3_server() as address:
        yield address


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, endpoint: str, tmp_path: Path) -> tuple[ArtifactStore, Damage]:
    """Return each implementation in turn, empty, and a way to write its blobs behind its back."""
    if request.param == "folder":
        return FolderStore(tmp_path), lambda key, data: _overwrite(tmp_path / "blobs" / key, data)
    bucket = new_bucket(endpoint)
    client = boto3.client("s3", endpoint_url=endpoint)

    def damage(key: str, data: bytes) -> None:
        client.put_object(Bucket=bucket, Key=f"some/prefix/blobs/{key}", Body=data, ChecksumAlgorithm="SHA256")

    return S3Store(f"s3://{bucket}/some/prefix", endpoint=endpoint), damage


def _overwrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.fixture
def store(place: tuple[ArtifactStore, Damage]) -> ArtifactStore:
    return place[0]


def test_a_blob_comes_back_as_it_was_put(store: ArtifactStore) -> None:
    """What was put under a digest is there, whole and in ranges."""
    assert not store.has(KEY)
    assert store.put(KEY, BLOB) is True
    assert store.has(KEY)
    assert store.read_small(KEY) == BLOB
    assert store.read_range(KEY, 300, 7) == BLOB[300:307]
    assert store.read_range(KEY, len(BLOB) - 5, 100) == BLOB[-5:]


async def test_a_blob_can_be_read_off_the_event_loop(store: ArtifactStore) -> None:
    """The gateway's way of reading gives the same bytes."""
    store.put(KEY, BLOB)
    assert await store.read(KEY) == BLOB


def test_a_file_can_be_put(store: ArtifactStore, tmp_path: Path) -> None:
    """A file goes in by its path, an empty one too."""
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert store.put(sha256(b""), path) is True
    path.write_bytes(BLOB)
    assert store.put(KEY, path) is True
    assert (store.read_small(sha256(b"")), store.read_small(KEY)) == (b"", BLOB)


def test_putting_twice_changes_nothing(store: ArtifactStore) -> None:
    """The second put says that the blob was there."""
    assert [store.put(KEY, BLOB), store.put(KEY, BLOB)] == [True, False]


def test_content_under_a_wrong_digest_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    """Neither bytes nor a file get in under a digest that is not theirs, and nothing is left of them."""
    path = tmp_path / "file"
    path.write_bytes(BLOB)
    for content in (BLOB, path):
        with pytest.raises(ArtifactRefused, match="another SHA-256"):
            store.put(OTHER, content)
    assert not store.has(OTHER)


def test_many_putting_the_same_blob_agree(store: ArtifactStore) -> None:
    """Putting one blob from several threads at once leaves one sound blob."""
    with ThreadPoolExecutor(8) as pool:
        put = list(pool.map(lambda _: store.put(KEY, BLOB), range(8)))
    assert any(put)
    assert store.read_small(KEY) == BLOB


@pytest.mark.parametrize("damaged", [BLOB[:-1], BLOB[:-1] + b"\0"], ids=["shorter", "altered"])
def test_a_damaged_blob_is_noticed_and_replaced(place: tuple[ArtifactStore, Damage], damaged: bytes) -> None:
    """A blob that was altered in the store is refused when read, and put right by putting it again."""
    store, damage = place
    store.put(KEY, BLOB)
    damage(KEY, damaged)
    with pytest.raises(ArtifactRefused, match="altered"):
        store.read_small(KEY)
    assert store.put(KEY, BLOB) is True
    assert store.read_small(KEY) == BLOB


def test_what_is_not_there_is_refused_in_words(store: ArtifactStore) -> None:
    """A missing blob names itself and what to do; a missing signature is simply none."""
    with pytest.raises(ArtifactRefused, match=f"no blob {OTHER}; push the model again"):
        store.read_range(OTHER, 0, 10)
    with pytest.raises(ArtifactRefused, match="push the model again"):
        store.read_small(OTHER)
    assert store.signature(OTHER) is None


def test_a_signature_and_a_bill_can_be_replaced(store: ArtifactStore) -> None:
    """The last one put is the one that counts; neither is the other."""
    for put, read in ((store.put_signature, store.signature), (store.put_bill, store.bill)):
        assert read(KEY) is None
        put(KEY, b"first")
        put(KEY, b"second")
        assert read(KEY) == b"second"


@pytest.mark.parametrize("key", ["", "../../etc/passwd", KEY.upper(), KEY[:-1], KEY + "0", "g" * 64])
def test_only_digests_are_keys(store: ArtifactStore, key: str) -> None:
    """Anything but 64 lower-case hex digits never becomes a path or an object's key."""
    for use in (store.has, store.read_small, store.signature, store.bill):
        with pytest.raises(ArtifactRefused, match="not a SHA-256"):
            use(key)
    with pytest.raises(ArtifactRefused, match="not a SHA-256"):
        store.put(key, b"")


def test_a_version_travels_from_publisher_to_worker(store: ArtifactStore, tmp_path: Path) -> None:
    """What is published into a store is what a node fetches from it, range by range, and verifies."""
    home = Home(tmp_path)
    folder = model_folder(tmp_path / "model", size=20_000)
    publishing = Publishing(store=store, signer=home.signer, work=tmp_path, report=lambda _: None)
    packed = publish(folder, describe(folder, measure(folder), CHOICES), publishing)
    copy = home.node(store, segment_bytes=4096).obtain(packed.digest)
    assert copy.manifest == packed.manifest
    assert (copy.folder / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


@given(start=st.integers(0, len(BLOB)), length=st.integers(1, len(BLOB)))
def test_any_range_is_a_slice(start: int, length: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Reading a range is slicing, wherever it begins and ends."""
    store = FolderStore(tmp_path_factory.getbasetemp() / "ranges")
    store.put(KEY, BLOB)
    assert store.read_range(KEY, start, length) == BLOB[start : start + length]


def test_large_files_go_to_s3_in_parts(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file above the limit of one put arrives whole, once, and leaves no unfinished upload."""
    monkeypatch.setattr("penstock.connectors.s3.bucket.PART_BYTES", 5 << 20)
    bucket = new_bucket(endpoint)
    store = S3Store(f"s3://{bucket}", endpoint=endpoint, max_put_bytes=1 << 20)
    data = b"0123456789abcdef" * (6 << 16)
    path = tmp_path / "large"
    path.write_bytes(data)
    assert [store.put(sha256(data), path), store.put(sha256(data), path)] == [True, False]
    assert store.read_small(sha256(data)) == data
    client = boto3.client("s3", endpoint_url=endpoint)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_an_s3_put_never_overwrites_by_accident(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that both found nothing there, the second one's put is turned away by the store itself."""
    store = S3Store(f"s3://{new_bucket(endpoint)}", endpoint=endpoint)
    store.put(KEY, BLOB)
    monkeypatch.setattr(S3Store, "_sound", lambda *_: False)
    monkeypatch.setattr(S3Store, "_exists", lambda *_: False)
    assert store.put(KEY, BLOB) is False


def test_an_absent_s3_is_unavailable() -> None:
    """A store that doesn't answer, or a bucket that doesn't exist, is not a missing blob."""
    with s3_server() as endpoint:
        store = S3Store("s3://nowhere", endpoint=endpoint)
        with pytest.raises(StoreUnavailable, match="NoSuchBucket"):
            store.put(KEY, BLOB)
    with pytest.raises(StoreUnavailable, match="no S3 address"):
        S3Store("bucket/prefix")


def test_a_folder_that_cannot_be_used_is_unavailable(tmp_path: Path) -> None:
    """A file in place of the folder is the store's trouble, not the blob's."""
    (tmp_path / "artifacts").write_text("")
    with pytest.raises(StoreUnavailable, match="can't be used"):
        FolderStore(tmp_path / "artifacts").put(KEY, BLOB)
