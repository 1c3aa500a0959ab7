"""Opaque objects in S3 at ``<prefix>/<name>``, for sealed payloads.

A small object is one conditional put, a larger one an upload in parts that is completed conditionally or aborted. A put
that is repeated after its answer was lost finds its own bytes under the name.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from penstock.connectors.s3.bucket import ABSENT, EXISTS, MultipartUpload, code, connect, location, read_range
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.jobs.errors import PayloadGone, StorageFull

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES = 8 << 20
"""Bytes of a part: S3 takes 10,000 parts of at least 5 MiB, and a writer holds two in memory."""
BEGINNING_BYTES = 64
"""Compared bytes of an object that a repeated put may have written: salt included, so no other has them."""
RETRY_S = 60.0
_EXISTS = EXISTS | {"409", "ConditionalRequestConflict"}
_FULL = frozenset({"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507"})


class S3Objects:
    """Objects at ``s3://bucket/prefix``; thread-safe like boto3's clients. ``endpoint`` replaces AWS's."""

    def __init__(self, url: str, *, endpoint: str = "", region: str = "", part_bytes: int = PART_BYTES) -> None:
        (self._bucket, self._prefix), self._part_bytes = location(url), part_bytes
        # a thread that waits for S3 holds the end of its process
        self._client = connect(endpoint=endpoint, region=region, attempts=2, read_timeout_s=10)

    def begin(self, name: str) -> "_Draft":
        return _Draft(self._client, self._bucket, self._key(name), self._part_bytes)

    def size(self, name: str) -> int:
        with _explained():
            return self._client.head_object(Bucket=self._bucket, Key=self._key(name))["ContentLength"]

    def read(self, name: str, start: int, length: int) -> bytes:
        with _explained():
            return read_range(self._client, self._bucket, self._key(name), start, length)

    def delete(self, name: str) -> None:
        with _explained():
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def names(self, before: float) -> Iterator[list[str]]:
        until, prefix = datetime.fromtimestamp(before, UTC), self._key("")
        with _explained():
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
                found = [one["Key"] for one in page.get("Contents", ()) if one["LastModified"] < until]
                if found:
                    yield [key.removeprefix(prefix) for key in found]

    def sweep(self, before: float) -> int:
        until, swept = datetime.fromtimestamp(before, UTC), 0
        with _explained():
            pages = self._client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._key("")):
                for one in page.get("Uploads", ()):
                    if one["Initiated"] < until:
                        self._client.abort_multipart_upload(
                            Bucket=self._bucket, Key=one["Key"], UploadId=one["UploadId"]
                        )
                        swept += 1
        return swept

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name


class _Draft:
    def __init__(self, client: "S3Client", bucket: str, key: str, part_bytes: int) -> None:
        self._client, self._bucket, self._key, self._part_bytes = client, bucket, key, part_bytes
        self._rest = bytearray()
        self._beginning = b""
        self._parts = MultipartUpload(client, bucket, key)

    def write(self, data: bytes) -> None:
        if len(self._beginning) < BEGINNING_BYTES:
            self._beginning += data[: BEGINNING_BYTES - len(self._beginning)]
        self._rest += data
        while len(self._rest) >= self._part_bytes:
            self._send(bytes(self._rest[: self._part_bytes]))
            del self._rest[: self._part_bytes]

    def commit(self) -> None:
        if self._parts and self._rest:
            self._send(bytes(self._rest))
        with _explained():
            try:
                self._complete()
            except ClientError as error:
                if code(error) not in _EXISTS:
                    raise
                if not self._is_ours():
                    raise Conflict("this object is written already") from error

    def abort(self) -> None:
        with suppress(StoreUnavailable, PayloadGone), _explained():  # the sweep takes what stays
            self._parts.abort()

    def _send(self, part: bytes) -> None:
        with _explained():
            self._parts.send(part)

    def _complete(self) -> None:
        if self._parts:
            self._parts.complete()
        else:
            self._client.put_object(Bucket=self._bucket, Key=self._key, Body=bytes(self._rest), IfNoneMatch="*")

    def _is_ours(self) -> bool:
        return read_range(self._client, self._bucket, self._key, 0, len(self._beginning)) == self._beginning


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if code(error) in ABSENT:
            raise PayloadGone from error
        if code(error) in _FULL:
            raise StorageFull(retry_after_s=RETRY_S) from error
        raise StoreUnavailable(f"the store of inputs and answers refused: {code(error)}") from error
    except BotoCoreError as error:
        raise StoreUnavailable("the store of inputs and answers can't be reached") from error
