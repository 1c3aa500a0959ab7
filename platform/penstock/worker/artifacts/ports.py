"""Ports: a source of artifacts, and a verifier of signatures.

Calls block; the worker makes them off its event loop.
"""

from pathlib import Path
from typing import Protocol


class ArtifactSource(Protocol):
    """A content-addressed store; its bytes are trusted only after hashing."""

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes of a blob from ``start``; raises ``ArtifactRefused`` if there is no such
        blob.
        """
        ...

    def read_small(self, sha256: str) -> bytes:
        """Return a small blob (a manifest) after checking its digest."""
        ...

    def signature(self, digest: str) -> bytes | None: ...


class SignatureVerifier(Protocol):
    def verify(self, folder: Path, signature: bytes) -> None:
        """Raise ``ArtifactRefused`` unless every file is signed and unchanged and none is extra."""
        ...
