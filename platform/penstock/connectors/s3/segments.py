"""Segments of the audit chain in a bucket with Object Lock: ``<prefix>/<region>/<name>``, in COMPLIANCE mode.

Each put carries its retention and SHA-256 itself and never overwrites, so that a right to put is all that it needs. A
later version can hide a locked object, and a delete marker too, but not end it: readers take the oldest version.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError

from penstock.audit.segments import SUFFIX
from penstock.connectors.s3.bucket import EXISTS, code, connect, location
from penstock.domain.errors import StoreUnavailable


class LockedSegments:
    """A bucket at ``s3://bucket/prefix``. ``locked_until`` gives the Unix second until which a new object is kept."""

    def __init__(self, url: str, region: str, locked_until: Callable[[], float], *, endpoint: str = "") -> None:
        (self._bucket, self._prefix), self._region = location(url), region
        self._locked_until = locked_until
        with self._explained():
            self._client = connect(endpoint=endpoint, region="", attempts=2, read_timeout_s=10)

    def put(self, name: str, content: bytes) -> None:
        with self._explained():
            try:
                self._client.put_object(
                    Bucket=self._bucket,
                    Key=self._key(f"{self._region}/{name}"),
                    Body=content,
                    ContentType="application/jsonl",
                    ChecksumAlgorithm="SHA256",
                    ChecksumSHA256=base64.b64encode(hashlib.sha256(content).digest()).decode(),
                    ObjectLockMode="COMPLIANCE",
                    ObjectLockRetainUntilDate=datetime.fromtimestamp(self._locked_until(), UTC),
                    IfNoneMatch="*",
                )
            except ClientError as error:
                if code(error) not in EXISTS:
                    raise

    def names(self) -> Iterator[tuple[str, int]]:
        counts: dict[str, int] = {}
        with self._explained():
            for page in self._client.get_paginator("list_object_versions").paginate(
                Bucket=self._bucket, Prefix=self._key("")
            ):
                for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                    key = one["Key"].removeprefix(self._key(""))
                    counts[key] = counts.get(key, 0) + 1
        yield from ((key, count) for key, count in sorted(counts.items()) if key.endswith(SUFFIX))

    def read(self, name: str) -> bytes:
        key = self._key(name)
        with self._explained():
            pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key)
            found = [one["VersionId"] for page in pages for one in page.get("Versions", ()) if one["Key"] == key]
            if not found:
                raise StoreUnavailable(f"{name} is not in the audit bucket any more")
            oldest = found[-1]  # a key's versions are listed with the newest first
            answer = self._client.get_object(Bucket=self._bucket, Key=key, VersionId=oldest)
            return answer["Body"].read()

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            raise StoreUnavailable(f"the audit bucket {self._bucket} refused: {code(error)}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"the audit bucket {self._bucket} can't be reached: {error}") from error
