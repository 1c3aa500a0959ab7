"""Seals an object in segments that open alone, each in its own position of its own object only.

Each tenant's key is derived from the platform's, each object's from the tenant's and from a header with the format's
version and a random salt. A segment's nonce is its number and a last-segment flag, so an altered, moved, cut off or
foreign segment fails to open.
"""

import hashlib
import hmac
import secrets
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.domain.ids import TenantId

TAG_BYTES = 16
SALT_BYTES = 16
FORMAT = b"PSL\x01"
"""The version of the format, ahead of the salt."""
HEADER_BYTES = len(FORMAT) + SALT_BYTES
_NUMBER_BYTES = 11


class Unreadable(Exception):
    """The object is sealed under another key or in another format, or was altered."""


class Subject(NamedTuple):
    """The owner of a seal; ``kind`` keeps stores apart, ``name`` is printable and unique for the tenant."""

    kind: str
    tenant: TenantId
    name: str


class Sealing:
    """Closes the segments of one new object, in order."""

    def __init__(self, key: bytes, subject: Subject) -> None:
        self.header = FORMAT + secrets.token_bytes(SALT_BYTES)
        self._cipher = _cipher(key, subject, self.header)
        self._number = 0

    def close(self, segment: bytes, *, is_last: bool) -> bytes:
        number, self._number = self._number, self._number + 1
        return self._cipher.encrypt(_nonce(number, is_last=is_last), segment, None)


class Opening:
    """Opens segments of one object, in any order."""

    def __init__(self, key: bytes, subject: Subject, header: bytes) -> None:
        """Raise ``Unreadable`` for a format of another version; a bare salt is that of answers before the first."""
        if len(header) != SALT_BYTES and not (len(header) == HEADER_BYTES and header.startswith(FORMAT)):
            raise Unreadable
        self._cipher = _cipher(key, subject, header)

    def open(self, number: int, segment: bytes, *, is_last: bool) -> bytes:
        """Raises ``Unreadable`` if this is not the object's segment of this number."""
        try:
            return self._cipher.decrypt(_nonce(number, is_last=is_last), segment, None)
        except InvalidTag as error:
            raise Unreadable from error


def _cipher(key: bytes, subject: Subject, header: bytes) -> AESGCM:
    of_tenant = hmac.digest(key, f"{subject.kind}/{subject.tenant}".encode() + b"\x01", hashlib.sha256)
    return AESGCM(hmac.digest(of_tenant, subject.name.encode() + header + b"\x01", hashlib.sha256))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(_NUMBER_BYTES) + bytes([is_last])
