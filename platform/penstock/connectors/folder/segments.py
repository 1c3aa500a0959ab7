"""Segments of the audit chain in a folder of the home, for a platform without a bucket: no write-once store.

Its owner can change them; a file beside them says so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.audit.segments import SUFFIX
from penstock.domain.errors import StoreUnavailable
from penstock.files.whole import appearing, sync_folder

NOTICE = "NOT-WRITE-ONCE.txt"
_SAYS = """This folder is no write-once store: its owner can change and delete what is in it.

Set PENSTOCK_AUDIT_URL=s3://bucket/prefix, a bucket with Object Lock, for a record that cannot be shortened.
"""


class FolderSegments:
    """Files ``<region>/<name>`` in ``root``; ``put`` writes to ``region``."""

    def __init__(self, root: Path, region: str) -> None:
        self._root, self._region = root, region

    def put(self, name: str, content: bytes) -> None:
        place = self._root / self._region / name
        with _explained(self._root):
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            notice = self._root / NOTICE
            if not notice.exists():
                notice.write_text(_SAYS)
            if not place.exists():
                with appearing(place, 0o400) as out:
                    out.write(content)
                sync_folder(place.parent)

    def names(self) -> Iterator[tuple[str, int]]:
        with _explained(self._root):
            found = sorted(self._root.glob(f"*/*{SUFFIX}"))
        yield from ((f"{path.parent.name}/{path.name}", 1) for path in found)

    def read(self, name: str) -> bytes:
        with _explained(self._root):
            return (self._root / name).read_bytes()


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"the folder of audit segments {root} can't be used: {error.strerror}") from error
