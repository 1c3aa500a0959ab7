"""Ports of this room: a store of artifacts, and a verifier of signatures.

Calls block; the worker makes them off its event loop.
"""

from pathlib import Path
from typing import Protocol


class ArtifactSource(Protocol):
    """A content-addressed store, read by digest; what comes out is not believed before it is hashed."""

    def read_range(self, sha256: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes of a blob from ``start``, or raise ``ArtifactRefused`` if there is none."""
        ...

    def read_small(self, sha256: str) -> bytes:
        """Return a whole small blob (a manifest), digest checked."""
        ...

    def signature(self, digest: str) -> bytes | None:
        """Return the signature of a version, None without one."""
        ...


class SignatureVerifier(Protocol):
    """Knows the public key that versions must be signed with."""

    def verify(self, folder: Path, signature: bytes) -> None:
        """Return if every file is signed and unchanged and none is extra; else raise ``ArtifactRefused``."""
        ...
