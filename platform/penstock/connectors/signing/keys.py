"""The platform's signing key pair: EC P-256, made once, kept in one folder."""

import hashlib
import os
from pathlib import Path
from uuid import uuid4

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

PRIVATE = "private.pem"
PUBLIC = "public.pem"


def ensure_key_pair(folder: Path) -> Path:
    """Return the public key's path. Safe for several processes: the first to link the private key wins, and the public
    key is derived from it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    private, public = folder / PRIVATE, folder / PUBLIC
    if not private.exists():
        _link_new(private, _pem(ec.generate_private_key(ec.SECP256R1())))
    pem = public_pem(serialization.load_pem_private_key(private.read_bytes(), None).public_key())
    if not public.exists() or public.read_bytes() != pem:
        beside = folder / f".{PUBLIC}.{uuid4().hex}"
        beside.write_bytes(pem)
        beside.replace(public)
    return public


def fingerprint(public_key: Path) -> str:
    """Hash the key as the signer writes its PEM, with any line ends. Raises ``ValueError`` without a public key."""
    return fingerprint_of(serialization.load_pem_public_key(public_key.read_bytes()))


def fingerprint_of(key: PublicKeyTypes) -> str:
    return hashlib.sha256(public_pem(key)).hexdigest()


def public_pem(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _link_new(path: Path, content: bytes) -> None:
    """Mode 0600, whole content in one step; a file that another process created meanwhile stays."""
    beside = path.with_name(f".{path.name}.{uuid4().hex}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(content)
            os.fsync(out.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            return
    finally:
        beside.unlink()
