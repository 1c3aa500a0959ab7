"""Segments in a bucket under Object Lock (moto), in a folder, and while the bucket refuses.

What moto does not prove: it lets a COMPLIANCE retention be shortened or turned to GOVERNANCE, which AWS refuses, and
refuses a bucket's default retention, which AWS has. So no test here claims either: each put carries mode and date
itself, and a record that was shortened after all is found by verification, as a file that is missing.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from penstock.audit.segments import SegmentStore
from penstock.connectors.folder.segments import NOTICE, FolderSegments
from penstock.connectors.postgres.database import Database
from penstock.connectors.s3.segments import LockedSegments
from penstock.connectors.signing.heads import KnownKeys
from penstock.connectors.signing.kms import KmsKey
from penstock.domain.errors import StoreUnavailable
from penstock.telemetry import names
from tests.support.audit_chains import Chained
from tests.support.stores.s3_server import new_signing_key, s3_server

pytestmark = pytest.mark.integration
DAY_S = 86_400.0
NAME = "00000000000000000001-00000000000000000002-0123456789abcdef.jsonl"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(endpoint: str) -> str:
    """Make a bucket with Object Lock and return its name."""
    client, name = boto3.client("s3", endpoint_url=endpoint), f"audit-{datetime.now(UTC).timestamp():.6f}"
    client.create_bucket(
        Bucket=name,
        CreateBucketConfiguration={"LocationConstraint": "eu-central-1"},
        ObjectLockEnabledForBucket=True,
    )
    return name


def locked(endpoint: str, bucket: str, region: str = "eu") -> LockedSegments:
    def until() -> float:
        return datetime.now(UTC).timestamp() + 400 * DAY_S

    return LockedSegments(f"s3://{bucket}/platform", region, until, endpoint=endpoint)


def test_a_segment_is_locked_and_put_once(endpoint: str, bucket: str) -> None:
    """Under ``platform/<region>/``, for 400 days in COMPLIANCE mode; no version can be deleted, even with bypass."""
    store, client = locked(endpoint, bucket), boto3.client("s3", endpoint_url=endpoint)
    for _ in range(2):
        store.put(NAME, b"first")
    store.put(NAME, b"another")
    assert (list(store.names()), store.read(f"eu/{NAME}")) == ([(f"eu/{NAME}", 1)], b"first")
    key = f"platform/eu/{NAME}"
    head = client.head_object(Bucket=bucket, Key=key)
    kept = head["ObjectLockRetainUntilDate"] - datetime.now(UTC)
    assert (head["ObjectLockMode"], round(kept.total_seconds() / DAY_S)) == ("COMPLIANCE", 400)
    for bypass in (False, True):
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket=bucket, Key=key, VersionId=head["VersionId"], BypassGovernanceRetention=bypass)


def test_what_hides_a_segment_is_seen(endpoint: str, bucket: str) -> None:
    """A later version, or a delete marker: the oldest version is read, and the count tells."""
    store, client = locked(endpoint, bucket), boto3.client("s3", endpoint_url=endpoint)
    store.put(NAME, b"first")
    client.put_object(Bucket=bucket, Key=f"platform/eu/{NAME}", Body=b"forged")
    client.delete_object(Bucket=bucket, Key=f"platform/eu/{NAME}")
    assert (list(store.names()), store.read(f"eu/{NAME}")) == ([(f"eu/{NAME}", 3)], b"first")


def test_a_folder_says_that_it_is_not_write_once(tmp_path: Path) -> None:
    """Segments are private files there, put once; the regions' folders are read together."""
    for region in ("eu", "us", "eu"):
        FolderSegments(tmp_path / "audit", region).put(NAME, region.encode())
    store = FolderSegments(tmp_path / "audit", "eu")
    assert list(store.names()) == [(f"eu/{NAME}", 1), (f"us/{NAME}", 1)]
    assert store.read(f"us/{NAME}") == b"us"
    assert "no write-once store" in (tmp_path / "audit" / NOTICE).read_text()
    assert (tmp_path / "audit" / "eu" / NAME).stat().st_mode & 0o777 == 0o400
    with pytest.raises(StoreUnavailable):
        FolderSegments(Path("/dev/null/audit"), "eu").put(NAME, b"")


async def test_a_chain_is_verified_from_the_bucket(
    database: Database, tmp_path: Path, endpoint: str, bucket: str
) -> None:
    """Also if a controller of another region took over between a put and its row; a forged version is seen."""
    chained = Chained(database, tmp_path, store=locked(endpoint, bucket))
    await chained.act(5)
    await chained.settle()
    await chained.database.rows("alter table audit_segment disable trigger user")
    await chained.database.rows("update audit_segment set shipped_at = 0")
    chained.store, chained.region = locked(endpoint, bucket, "us"), "us"
    await chained.act(3)
    await chained.settle()
    done = await chained.verified()
    assert (done.report.findings, done.last, done.files) == ([], 8, 2)
    client = boto3.client("s3", endpoint_url=endpoint)
    (first, *_) = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    client.put_object(Bucket=bucket, Key=first, Body=b"forged")
    assert await chained.kinds(from_bucket=True) == {"forked"}


class Refusing:
    """A bucket that refuses while ``is_away``."""

    def __init__(self, real: SegmentStore) -> None:
        self.real, self.is_away, self.tried = real, True, 0

    def put(self, name: str, content: bytes) -> None:
        self.tried += 1
        if self.is_away:
            raise StoreUnavailable("the audit bucket refused: AccessDenied")
        self.real.put(name, content)

    def names(self) -> list[tuple[str, int]]:
        return list(self.real.names())

    def read(self, name: str) -> bytes:
        return self.real.read(name)


async def test_a_bucket_that_refuses_delays_shipping_alone(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acts are linked and signed meanwhile, the gauge counts what is unshipped, and later all of it is there."""
    monkeypatch.setattr("penstock.control.sequencer.SHIP_EVERY_S", 0.05)
    monkeypatch.setattr("penstock.control.sequencer.SHIP_AGAIN_S", 0.05)
    store = Refusing(FolderSegments(tmp_path / "audit", "eu"))
    chained = Chained(database, tmp_path, store=store)
    for _ in range(3):
        await chained.act(4)
        await chained.settle(ship=False)
    gauge = chained.metrics.gauge(names.AUDIT_UNSHIPPED_SEGMENTS)
    running = asyncio.create_task(chained.sequencer().run())
    try:
        async with asyncio.timeout(20):
            while store.tried < 3:  # noqa: ASYNC110  what is waited for is not the test's
                await asyncio.sleep(0.05)
            assert gauge._value.get() == 3
            await chained.act(4)
            while (await chained.verified(from_bucket=False)).last < 16:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            store.is_away = False
            while gauge._value.get() > 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    done = await chained.verified()
    assert (done.report.findings, done.files >= 3) == ([], True)


def test_heads_are_signed_in_kms(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a P-256 key that never leaves it; another key or another message does not fit."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    key, other = (KmsKey(f"awskms:///{new_signing_key(endpoint)[0]}") for _ in range(2))
    signature = key.sign(b"a head")
    known = KnownKeys([key.pem])
    assert known.has_signed(key.fingerprint, b"a head", signature)
    assert not known.has_signed(key.fingerprint, b"another", signature)
    assert not known.has_signed(other.fingerprint, b"a head", other.sign(b"a head"))
