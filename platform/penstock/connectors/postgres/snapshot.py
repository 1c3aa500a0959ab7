"""The last good copy on disk: written atomically, readable by its owner alone."""

import os
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path) -> bytes | None:
    """Return the copy, None without one."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
