"""Files: what callers uploaded for batches, and what batches wrote for them. The bytes are a sealed object."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.clock import DAY_S
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import FileId, ObjectId
from penstock.domain.jobs.payload import object_id

PREFIX = "file-"
KIND = "file"
"""The kind of files' objects."""
RANDOM_BYTES = 10
LEAST_KEPT_S, MOST_KEPT_S = 3_600.0, 30.0 * DAY_S
"""OpenAI's bounds of ``expires_after``; the last is also its default for batches' inputs."""
MOST_FILE_BYTES = 200 << 20
"""OpenAI's bound of a batch's input."""
MOST_NAME_CHARS = 255


class FilePurpose(StrEnum):
    BATCH = "batch"
    """Uploaded, as a batch's input."""
    BATCH_OUTPUT = "batch_output"
    """Written by a batch: its results, or its errors."""


class FileState(StrEnum):
    UPLOADING = "uploading"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file's row. Times are Unix seconds, 0 for never; of an upload in progress ``expires_at`` is its sign of life,
    and ``size_bytes`` what it reserved.
    """

    id: FileId
    tenant: TenantId
    key: KeyId
    name: str
    purpose: FilePurpose
    size_bytes: int
    created_at: float
    expires_at: float
    object: ObjectId
    state: FileState = FileState.READY
    idempotency: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """The files of a tenant after one of them, newest first; an empty purpose means any."""

    purpose: str = ""
    after: str = ""
    limit: int
    is_oldest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Bounds of one tenant's uploaded files, and of the bytes of all that it keeps; 0 is no bound."""

    files: int = 0
    size_bytes: int = 0


def file_id(now: float, chance: bytes) -> FileId:
    """Return an id; ids sort by time, so that the last one of a page leads to the next page."""
    return FileId(f"{PREFIX}{int(now * 1000):012x}{chance.hex()}")


def object_of(file: FileId) -> ObjectId:
    return object_id(KIND, file)


def expiry(created_at: float, wish_s: float, keep_s: float) -> float:
    """Return the second of a file's expiry: by its caller's wish or OpenAI's default, and by the plan (0: no bound)."""
    kept_s = wish_s or MOST_KEPT_S
    return created_at + (min(kept_s, keep_s) if keep_s else kept_s)
