"""Signs and verifies a version's folder: OpenSSF Model Signing v1 with a key pair, no network.

Implements the ports ``Signer`` and ``SignatureVerifier``, which take folders and bundles. The
library needs bundle files, hence the temporary folders.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from model_signing import signing, verifying

from penstock.connectors.signing.keys import PRIVATE, ensure_key_pair, fingerprint
from penstock.domain.errors import ArtifactRefused


class KeyPairSigner:
    def __init__(self, folder: Path) -> None:
        self._private = folder / PRIVATE
        self._fingerprint = fingerprint(ensure_key_pair(folder))

    def sign(self, folder: Path) -> bytes:
        with _bundle_file() as path:
            signing.Config().use_elliptic_key_signer(private_key=self._private).sign(folder, path)
            return path.read_bytes()

    def has_signed(self, bundle: bytes) -> bool:
        return named_key(bundle) == self._fingerprint


class PublicKeyVerifier:
    """Or with the key's predecessor while that file exists."""

    def __init__(self, public_key: Path, before: Path | None = None) -> None:
        self._public_key = public_key
        self._before = before

    def verify(self, folder: Path, signature: bytes) -> None:
        key = self._key_of(signature)
        with _bundle_file(signature) as path:
            try:
                verifying.Config().use_elliptic_key_verifier(public_key=key).verify(folder, path)
            except InvalidSignature as error:
                raise ArtifactRefused(
                    "the signature was made with another key than this platform's, or was altered; push the model again"
                ) from error
            except (ValueError, KeyError, TypeError) as error:
                raise ArtifactRefused(f"{error}; push the model again") from error

    def _key_of(self, signature: bytes) -> Path:
        if not self._public_key.is_file():
            raise ArtifactRefused(f"there is no public key at {self._public_key} to verify versions with")
        named, ours = named_key(signature), _fingerprint(self._public_key)
        if self._before is not None and self._before.is_file() and named == _fingerprint(self._before):
            return self._before
        if named != ours:
            raise ArtifactRefused(
                f"the version is signed with another key ({named[:12] or 'unnamed'}) than {self._public_key} "
                f"({ours[:12]}); push the model again, or give this worker the key that signed it"
            )
        return self._public_key


def _fingerprint(public_key: Path) -> str:
    try:
        return fingerprint(public_key)
    except ValueError as error:
        raise ArtifactRefused(f"{public_key} is no public key in PEM: {error}") from error


def named_key(bundle: bytes) -> str:
    try:
        hint = json.loads(bundle)["verificationMaterial"]["publicKey"]["hint"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return hint if isinstance(hint, str) else ""


@contextmanager
def _bundle_file(content: bytes = b"") -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-bundle-") as folder:
        path = Path(folder, "model.sig")
        path.write_bytes(content)
        yield path
