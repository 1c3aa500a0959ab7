"""The S3 client of all stores, with puts: whole, or in parts if an object is too large for one put.

A put carries ``If-None-Match: *`` unless it replaces a damaged object: boto3's transfer manager cannot send that
header, hence the explicit parts.
"""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedMultipartUploadTypeDef, CompletedPartTypeDef

PART_BYTES = 64 << 20
ABSENT = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchUpload"})
EXISTS = frozenset({"412", "PreconditionFailed"})


def location(url: str) -> tuple[str, str]:
    """Return the bucket and prefix of ``s3://bucket/prefix``."""
    parts = urlsplit(url)
    return parts.netloc, parts.path.strip("/")


def connect(*, endpoint: str, region: str, attempts: int, read_timeout_s: float) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=endpoint or None,
        region_name=region or None,
        config=Config(
            retries={"mode": "standard", "max_attempts": attempts},
            connect_timeout=5,
            read_timeout=read_timeout_s,
            max_pool_connections=16,
        ),
    )


def code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def read_range(client: "S3Client", bucket: str, key: str, start: int, length: int) -> bytes:
    return client.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{start + length - 1}")["Body"].read()


def put_whole(
    client: "S3Client", bucket: str, key: str, content: Path | bytes, checksum: str, *, replace: bool
) -> None:
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as body:
        if replace:
            client.put_object(Bucket=bucket, Key=key, Body=body, ChecksumSHA256=checksum)
        else:
            client.put_object(Bucket=bucket, Key=key, Body=body, ChecksumSHA256=checksum, IfNoneMatch="*")


def put_large(client: "S3Client", bucket: str, key: str, path: Path, *, replace: bool) -> None:
    """Put a file in parts; after a failure no part remains."""
    parts = MultipartUpload(client, bucket, key)
    try:
        with path.open("rb") as file:
            while chunk := file.read(PART_BYTES):
                parts.send(chunk)
        parts.complete(replace=replace)
    except BaseException:
        parts.abort()
        raise


class MultipartUpload:
    """An object in parts; false before its first."""

    def __init__(self, client: "S3Client", bucket: str, key: str) -> None:
        self._client, self._bucket, self._key = client, bucket, key
        self._upload = ""
        self._parts: list[CompletedPartTypeDef] = []

    def __bool__(self) -> bool:
        return bool(self._upload)

    def send(self, part: bytes) -> None:
        if not self._upload:
            self._upload = self._client.create_multipart_upload(Bucket=self._bucket, Key=self._key)["UploadId"]
        number = len(self._parts) + 1
        answer = self._client.upload_part(
            Bucket=self._bucket, Key=self._key, UploadId=self._upload, PartNumber=number, Body=part
        )
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})

    def complete(self, *, replace: bool = False) -> None:
        done: CompletedMultipartUploadTypeDef = {"Parts": self._parts}
        bucket, key, upload = self._bucket, self._key, self._upload
        if replace:
            self._client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload=done)
        else:
            self._client.complete_multipart_upload(
                Bucket=bucket, Key=key, UploadId=upload, MultipartUpload=done, IfNoneMatch="*"
            )

    def abort(self) -> None:
        if self._upload:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._upload)
