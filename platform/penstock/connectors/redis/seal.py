"""Seals answers before they leave the process: the store, its copies and its wire hold ciphertext.

Each tenant's key is derived from the platform's, each record's key from the tenant's and a random salt; a piece's nonce
is its number and a last-piece flag. An altered, moved, reordered or foreign piece fails to decrypt; a missing last
piece is waited for.
"""

import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.domain.serving.idempotency import RecordKey

SALT_BYTES = 16
_NUMBER_BYTES = 11


class Unreadable(Exception):
    """The answer is sealed under another key, or was altered."""


class Seal:
    def __init__(self, key: bytes, record: RecordKey, salt: bytes) -> None:
        of_tenant = hmac.digest(key, b"answers/" + record.tenant.encode() + b"\x01", hashlib.sha256)
        of_record = hmac.digest(of_tenant, record.name.encode() + salt + b"\x01", hashlib.sha256)
        self.salt = salt
        self._cipher = AESGCM(of_record)
        self._number = 0

    @classmethod
    def new(cls, key: bytes, record: RecordKey) -> "Seal":
        return cls(key, record, secrets.token_bytes(SALT_BYTES))

    def close(self, data: bytes, *, is_last: bool) -> bytes:
        return self._cipher.encrypt(self._next(is_last=is_last), data, None)

    def open(self, data: bytes, *, is_last: bool) -> bytes:
        """Raises ``Unreadable`` if the data is not the next piece."""
        try:
            return self._cipher.decrypt(self._next(is_last=is_last), data, None)
        except InvalidTag as error:
            raise Unreadable from error

    def _next(self, *, is_last: bool) -> bytes:
        number, self._number = self._number, self._number + 1
        return number.to_bytes(_NUMBER_BYTES) + bytes([is_last])


def print_of(key: bytes, record: RecordKey, fingerprint: str) -> str:
    return hmac.new(key, f"print/{record.tenant}\x1f{fingerprint}".encode(), hashlib.sha256).hexdigest()
