"""Cached digests of converted folders, so that a warm start does not hash gigabytes again.

Trade-off: a file changed with size and time kept goes unnoticed here. Storing it is refused by digest, and a worker
verifies files before loading.
"""

from pathlib import Path

import msgspec

from penstock.domain.models.model import Artifact
from penstock.formats.contents import ALLOWED
from penstock.packaging.packing import measure


class _Record(msgspec.Struct):
    files: tuple[Artifact, ...]
    stamps: dict[str, int]


def measured(folder: Path, allowed: frozenset[str] = ALLOWED) -> tuple[Artifact, ...]:
    """Return the version's files with digests; hashed on the first call and after a change of size or time."""
    path = folder.with_name(f".{folder.name}.measured.json")
    record = _read(path)
    if record is not None and record.files and all(_unchanged(folder, file, record) for file in record.files):
        return record.files
    files = measure(folder, allowed)
    stamps = {file.path: (folder / file.path).stat().st_mtime_ns for file in files}
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(_Record(files=files, stamps=stamps)))
    beside.replace(path)
    return files


def _read(path: Path) -> _Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None


def _unchanged(folder: Path, file: Artifact, record: _Record) -> bool:
    try:
        now = (folder / file.path).stat()
    except OSError:
        return False
    return now.st_size == file.size_bytes and now.st_mtime_ns == record.stamps.get(file.path)
