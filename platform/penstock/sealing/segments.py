"""Seals an object in segments that open alone, each in its own position of its own object only.

Each object has a key of its own, derived from its tenant's key, its name and a header: the format's version, the id of
the tenant's key, a random salt. Header, tenant and name are associated data of every segment; its nonce is its number
and a last-segment flag. So an altered, moved, cut off or foreign segment fails to open.
"""

import hmac
import os
from hashlib import blake2b
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.domain.ids import TenantId

TAG_BYTES = 16
SALT_BYTES = 16
KEY_ID_BYTES = 16
FORMAT = b"PSL\x02"
"""The version of the format, ahead of the key's id and the salt."""
FORMER = b"PSL\x01"
"""The format under keys derived from the platform's, without the key's id: it is opened, and written no more."""
HEADER_BYTES = len(FORMAT) + KEY_ID_BYTES + SALT_BYTES
_KEY_BYTES = 32
_FORMER_BYTES = len(FORMER) + SALT_BYTES
_NONCE_BYTES = 12
"""A segment's number, and in the last byte whether it is the last one."""


class Unreadable(Exception):
    """The object is sealed under another key or in another format, or was altered."""


class KeyGone(Unreadable):
    """The tenant has no key of this id: it was shredded."""


class Subject(NamedTuple):
    """The owner of a seal; ``kind`` keeps stores apart, ``name`` is printable and unique for the tenant."""

    kind: str
    tenant: TenantId
    name: str


class TenantKey(NamedTuple):
    id: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"TenantKey({self.id.hex()})"


class Sealing:
    """Closes the segments of one new object, in order."""

    __slots__ = ("_bound", "_cipher", "_number", "header")

    def __init__(self, key: TenantKey, subject: Subject) -> None:
        self.header = FORMAT + key.id + os.urandom(SALT_BYTES)
        self._cipher, self._bound = _cipher(key.secret, subject, self.header)
        self._number = 0

    def close(self, segment: bytes, *, is_last: bool) -> bytes:
        nonce = (self._number << 8 | is_last).to_bytes(_NONCE_BYTES)
        self._number += 1
        return self._cipher.encrypt(nonce, segment, self._bound)


class Opening:
    """Opens segments of one object, in any order."""

    __slots__ = ("_bound", "_cipher")

    def __init__(self, secret: bytes, subject: Subject, header: bytes) -> None:
        """Raise ``Unreadable`` for a format of another version."""
        cipher = _former if key_id(header) is None else _cipher
        self._cipher, self._bound = cipher(secret, subject, header)

    def open(self, number: int, segment: bytes, *, is_last: bool) -> bytes:
        """Raises ``Unreadable`` if this is not the object's segment of this number."""
        try:
            return self._cipher.decrypt((number << 8 | is_last).to_bytes(_NONCE_BYTES), segment, self._bound)
        except InvalidTag as error:
            raise Unreadable from error


def header_of(sealed: bytes) -> bytes:
    """Return the header at the beginning of an object; ``Unreadable`` if no known version begins so."""
    header = sealed[: _FORMER_BYTES if sealed.startswith(FORMER) else HEADER_BYTES]
    key_id(header)
    return header


def key_id(header: bytes) -> bytes | None:
    """Return the id of the tenant's key; None for the former format."""
    if len(header) == HEADER_BYTES and header.startswith(FORMAT):
        return header[len(FORMAT) : len(FORMAT) + KEY_ID_BYTES]
    if len(header) == _FORMER_BYTES and header.startswith(FORMER):
        return None
    raise Unreadable


def _cipher(secret: bytes, subject: Subject, header: bytes) -> tuple[AESGCM, bytes | None]:
    bound = header + "\x1f".join(subject).encode()
    return AESGCM(blake2b(bound, digest_size=_KEY_BYTES, key=secret).digest()), bound


def _former(key: bytes, subject: Subject, header: bytes) -> tuple[AESGCM, bytes | None]:
    of_tenant = hmac.digest(key, f"{subject.kind}/{subject.tenant}".encode() + b"\x01", "sha256")
    return AESGCM(hmac.digest(of_tenant, subject.name.encode() + header + b"\x01", "sha256")), None
