"""Artifacts in S3: ``<prefix>/blobs/<sha256>``, ``<prefix>/signatures/<digest>`` and ``<prefix>/bills/<digest>``.

Implements the folder store's ports. A put never overwrites a blob: it carries ``If-None-Match: *`` and the SHA-256,
which S3 checks against the content. Credentials come from boto3's own chain.
"""

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from penstock.connectors.s3.bucket import ABSENT, EXISTS, code, connect, location, put_large, put_whole, read_range
from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.domain.models.model import is_sha256

MAX_SMALL_BYTES = 64 << 20
MAX_PUT_BYTES = 5 << 30
"""S3's limit for a single put; larger files are uploaded in parts."""


class S3Store:
    """Thread-safe like boto3's clients. ``endpoint`` replaces AWS's; files above ``max_put_bytes`` are uploaded in
    parts.
    """

    def __init__(self, url: str, *, endpoint: str = "", max_put_bytes: int = MAX_PUT_BYTES) -> None:
        self._bucket, self._prefix = location(url)
        if not url.startswith("s3://") or not self._bucket:
            raise StoreUnavailable(f"{url!r} is no S3 address; write s3://bucket/prefix")
        self._max_put_bytes = max_put_bytes
        with self._explained():
            self._client = connect(endpoint=endpoint, region="", attempts=4, read_timeout_s=30)

    def has(self, sha256: str) -> bool:
        with self._explained():
            return self._sound(sha256)

    def size(self, sha256: str) -> int:
        with self._explained(sha256):
            return self._client.head_object(Bucket=self._bucket, Key=self._blob(sha256))["ContentLength"]

    def put(self, sha256: str, content: Path | bytes) -> bool:
        key = self._blob(sha256)
        size = _checked_size(sha256, content)
        with self._explained(sha256):
            if self._sound(sha256, size):
                return False
            replace = self._exists(key)
            try:
                self._send(key, content, sha256, replace=replace)
            except ClientError as error:
                if code(error) in EXISTS:
                    return False  # somebody put it meanwhile
                raise
        return True

    def put_signature(self, digest: str, signature: bytes) -> None:
        self._put_record("signatures", digest, signature)

    def signature(self, digest: str) -> bytes | None:
        return self._record("signatures", digest)

    def put_bill(self, digest: str, bill: bytes) -> None:
        self._put_record("bills", digest, bill)

    def bill(self, digest: str) -> bytes | None:
        return self._record("bills", digest)

    def _put_record(self, kind: str, digest: str, content: bytes) -> None:
        with self._explained(digest):
            self._client.put_object(Bucket=self._bucket, Key=self._key(kind, digest), Body=content)

    def _record(self, kind: str, digest: str) -> bytes | None:
        with self._explained(digest):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key(kind, digest))
            except ClientError as error:
                if code(error) in ABSENT:
                    return None
                raise
            return answer["Body"].read()

    def signed(self, prefix: str) -> tuple[str, ...]:
        folder = "/".join(part for part in (self._prefix, "signatures") if part)
        with self._explained(prefix):
            answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=f"{folder}/{prefix}")
        names = (found["Key"].rpartition("/")[2] for found in answer.get("Contents", ()))
        return tuple(sorted(name for name in names if is_sha256(name)))

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        with self._explained(sha256):
            return read_range(self._client, self._bucket, self._blob(sha256), start, length)

    def read_small(self, sha256: str) -> bytes:
        if self.size(sha256) > MAX_SMALL_BYTES:
            raise ArtifactRefused(f"blob {sha256} is too large to be read at once")
        with self._explained(sha256):
            raw = self._client.get_object(Bucket=self._bucket, Key=self._blob(sha256))["Body"].read()
        if hashlib.sha256(raw).hexdigest() != sha256:
            raise ArtifactRefused(f"blob {sha256} is damaged or was altered in the artifact store; push it again")
        return raw

    async def read(self, sha256: str) -> bytes:
        return await asyncio.to_thread(self.read_small, sha256)

    def _send(self, key: str, content: Path | bytes, sha256: str, *, replace: bool) -> None:
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        if isinstance(content, Path) and size > self._max_put_bytes:
            put_large(self._client, self._bucket, key, content, replace=replace)
        else:
            checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
            put_whole(self._client, self._bucket, key, content, checksum, replace=replace)

    def _exists(self, key: str) -> bool:
        try:
            self._client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if code(error) in ABSENT:
                return False
            raise
        return True

    def _sound(self, sha256: str, size: int | None = None) -> bool:
        """Stored and undamaged by S3's checksum; a multipart upload has no such checksum."""
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=self._blob(sha256), ChecksumMode="ENABLED")
        except ClientError as error:
            if code(error) in ABSENT:
                return False
            raise
        checksum = head.get("ChecksumSHA256", "")
        known = base64.b64encode(bytes.fromhex(sha256)).decode()
        return size in {None, head["ContentLength"]} and (not checksum or "-" in checksum or checksum == known)

    def _blob(self, sha256: str) -> str:
        return self._key("blobs", sha256)

    def _key(self, kind: str, sha256: str) -> str:
        if not is_sha256(sha256):
            raise ArtifactRefused(f"{sha256[:80]!r} is not a SHA-256")
        return "/".join(part for part in (self._prefix, kind, sha256) if part)

    @contextmanager
    def _explained(self, sha256: str = "") -> Iterator[None]:
        place = f"s3://{self._bucket}/{self._prefix}"
        try:
            yield
        except ClientError as error:
            if code(error) in ABSENT:
                raise ArtifactRefused(
                    f"the artifact store {place} has no blob {sha256}; push the model again"
                ) from error
            raise StoreUnavailable(f"the artifact store {place} refused: {code(error)}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"the artifact store {place} can't be reached: {error}") from error


def _checked_size(sha256: str, content: Path | bytes) -> int:
    if isinstance(content, bytes):
        actual, size = hashlib.sha256(content).hexdigest(), len(content)
    else:
        with content.open("rb") as file:
            actual, size = hashlib.file_digest(file, "sha256").hexdigest(), content.stat().st_size
    if actual != sha256:
        raise ArtifactRefused(f"the content put under {sha256} has another SHA-256")
    return size
