"""The port below the seal: objects of opaque bytes. Called in threads; a name is written once."""

from collections.abc import Iterator
from typing import Protocol


class Draft(Protocol):
    """An object that grows unseen. ``commit`` or ``abort`` ends it."""

    def write(self, data: bytes) -> None: ...

    def commit(self) -> None:
        """Raises ``Conflict`` if the name is taken."""
        ...

    def abort(self) -> None: ...


class Objects(Protocol):
    def begin(self, name: str) -> Draft: ...

    def size(self, name: str) -> int:
        """Return the object's bytes; raises ``PayloadGone``, as ``read`` does for a name without an object."""
        ...

    def read(self, name: str, start: int, length: int) -> bytes: ...

    def delete(self, name: str) -> None: ...

    def names(self, before: float) -> Iterator[list[str]]:
        """Yield the objects last written before this Unix time, in groups of at most 1,000."""
        ...

    def sweep(self, before: float) -> int:
        """Remove drafts that were last written before this time; return their number."""
        ...
