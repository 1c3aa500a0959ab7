"""Files that appear whole or not at all: written beside their place, synced, then renamed.

Trade-off: a killed process leaves its draft, a hidden file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

PRIVATE = 0o600


@contextmanager
def appearing(place: Path, mode: int = PRIVATE) -> Iterator[IO[bytes]]:
    """Yield the draft of a file; it takes the file's place if the block succeeds."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name[:64]}.{uuid4().hex}")
    try:
        with open(draft, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in it last: a file that was renamed is there after the machine's failure, too."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
