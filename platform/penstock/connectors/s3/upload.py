"""Two ways to put an object into S3: whole, or in parts if it is too large for one put.

Both carry ``If-None-Match: *`` unless they replace a damaged object. boto3's transfer manager cannot send that header,
hence the explicit parts.
"""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedMultipartUploadTypeDef, CompletedPartTypeDef

PART_BYTES = 64 << 20


def put_whole(
    client: "S3Client", bucket: str, key: str, content: Path | bytes, checksum: str, *, replace: bool
) -> None:
    """Put bytes or a file with its SHA-256 (base64), which S3 checks."""
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as body:
        if replace:
            client.put_object(Bucket=bucket, Key=key, Body=body, ChecksumSHA256=checksum)
        else:
            client.put_object(Bucket=bucket, Key=key, Body=body, ChecksumSHA256=checksum, IfNoneMatch="*")


def put_large(client: "S3Client", bucket: str, key: str, path: Path, *, replace: bool) -> None:
    """Put a file in parts; after a failure no part remains."""
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    try:
        parts = _send_parts(client, bucket, key, upload, path)
        done: CompletedMultipartUploadTypeDef = {"Parts": parts}
        if replace:
            client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload=done)
        else:
            client.complete_multipart_upload(
                Bucket=bucket, Key=key, UploadId=upload, MultipartUpload=done, IfNoneMatch="*"
            )
    except BaseException:
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
        raise


def _send_parts(client: "S3Client", bucket: str, key: str, upload: str, path: Path) -> "list[CompletedPartTypeDef]":
    parts: list[CompletedPartTypeDef] = []
    with path.open("rb") as file:
        while chunk := file.read(PART_BYTES):
            number = len(parts) + 1
            answer = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=chunk)
            parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    return parts
