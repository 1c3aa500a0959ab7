"""Signatures of the audit chain's heads: ECDSA on P-256 with the home's key pair or a key in KMS."""

from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.audit.segments import Signed
from penstock.connectors.signing.keys import PRIVATE, ensure_key_pair, fingerprint_of

_HASH = ec.ECDSA(hashes.SHA256())


class KeyPairHeads:
    """Signs with ``private.pem`` in ``folder``, which is made if it is missing."""

    def __init__(self, folder: Path) -> None:
        ensure_key_pair(folder)
        key = serialization.load_pem_private_key((folder / PRIVATE).read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{folder / PRIVATE} is no key on an elliptic curve")  # noqa: TRY004  of a file
        self._key = key
        self.fingerprint = fingerprint_of(key.public_key())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message, _HASH)


class KnownKeys:
    """Public keys in PEM that heads may be signed with; ``ValueError`` for one that is no key on a curve."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys: dict[str, ec.EllipticCurvePublicKey] = {}
        for pem in keys:
            key = serialization.load_pem_public_key(pem)
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise ValueError("this is no key on an elliptic curve")  # noqa: TRY004  of a file
            self._keys[fingerprint_of(key)] = key

    def is_signed(self, one: Signed) -> bool:
        return self.has_signed(one.head.key, one.covered, one.signature)

    def has_signed(self, fingerprint: str, message: bytes, signature: bytes) -> bool:
        key = self._keys.get(fingerprint)
        if key is None:
            return False
        try:
            key.verify(signature, message, _HASH)
        except InvalidSignature:
            return False
        return True
