"""Ports of publishing: an artifact store and a signer."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

Report = Callable[[str], None]
"""Called with a line about present progress."""


class ArtifactStore(Protocol):
    """A content-addressed store that can be written to; includes the readers' methods of worker and gateway."""

    def has(self, sha256: str) -> bool: ...

    def put(self, sha256: str, content: Path | bytes) -> bool: ...

    def put_signature(self, digest: str, signature: bytes) -> None: ...

    def put_bill(self, digest: str, bill: bytes) -> None: ...

    def bill(self, digest: str) -> bytes | None: ...

    def signature(self, digest: str) -> bytes | None: ...

    def signed(self, prefix: str) -> tuple[str, ...]: ...

    def read_range(self, sha256: str, start: int, length: int) -> bytes: ...

    def read_small(self, sha256: str) -> bytes:
        """Return a small blob, digest checked."""
        ...

    async def read(self, sha256: str) -> bytes: ...


class Signer(Protocol):
    """Signs folders, with a local key pair or a key in a KMS."""

    def sign(self, folder: Path) -> bytes: ...

    def has_signed(self, bundle: bytes) -> bool: ...
