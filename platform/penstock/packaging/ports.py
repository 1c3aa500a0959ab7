"""What publishing a version needs: somewhere to put artifacts, and a signature."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Report = Callable[[str], None]
"""Takes one line about what goes on just now."""


class ArtifactStore(Protocol):
    """A content-addressed store that can be written; what worker and gateway read it by is there too."""

    def has(self, sha256: str) -> bool:
        """Tell whether a blob is there."""
        ...

    def put(self, sha256: str, content: Path | bytes) -> bool:
        """Store a blob whose digest this is; False where it was there already."""
        ...

    def put_signature(self, digest: str, signature: bytes) -> None:
        """Store a version's signature in place of a former one."""
        ...

    def signature(self, digest: str) -> bytes | None:
        """Return a version's signature, None where it has none."""
        ...

    def signed(self, prefix: str) -> tuple[str, ...]:
        """Return the digests of signed versions that begin with ``prefix``."""
        ...

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        """Return a range of a blob."""
        ...

    def read_small(self, sha256: str) -> bytes:
        """Return a whole small blob, digest checked."""
        ...

    async def read(self, sha256: str) -> bytes:
        """Return a whole small blob off the event loop."""
        ...


class Signer(Protocol):
    """Signs folders, with a key pair here or a key in a KMS."""

    def sign(self, folder: Path) -> bytes:
        """Return the bundle over every file of the folder."""
        ...

    def has_signed(self, bundle: bytes) -> bool:
        """Tell whether the bundle names this signer's key."""
        ...
