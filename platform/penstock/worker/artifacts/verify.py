"""Last check before weights reach an engine: the folder is the version, complete, signed, of a served kind."""

import hashlib
from pathlib import Path

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.model import Manifest
from penstock.formats.contents import MANIFEST, check_contents, check_listing, check_manifest
from penstock.worker.artifacts.ports import SignatureVerifier

UNSIGNED = "the version is not signed: push it again, `penstock models push` signs with the platform's key"


def read_manifest(raw: bytes, digest: str) -> Manifest:
    """Decode the manifest; raises ``ArtifactRefused`` if the bytes have another digest."""
    if hashlib.sha256(raw).hexdigest() != digest:
        raise ArtifactRefused(f"{MANIFEST} was altered: its SHA-256 is not the version's digest {digest}")
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as error:
        raise ArtifactRefused(f"{MANIFEST} is not a manifest: {error}") from error
    check_manifest(manifest)
    return manifest


def verify(folder: Path, digest: str, signature: bytes | None, verifier: SignatureVerifier) -> Manifest:
    """Return the manifest of a loadable folder; raises ``ArtifactRefused`` with file and reason.

    The signature covers every file (OpenSSF Model Signing); hashing takes nearly all of the time.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise ArtifactRefused(f"{MANIFEST} is missing from the version's folder; fetch the version again")
    manifest = read_manifest(path.read_bytes(), digest)
    check_listing(folder, manifest.files)
    if not signature:
        raise ArtifactRefused(UNSIGNED)
    verifier.verify(folder, signature)
    check_contents(folder)
    return manifest
