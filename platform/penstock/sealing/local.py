"""The key-encryption key of a platform without a KMS: derived from the platform's key, and exchanged with it."""

import secrets as chance
from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.domain.tenancy.keys import key_mark
from penstock.sealing.keys import Context, Wrapped
from penstock.sealing.segments import Unreadable

PREFIX = "local/"
_NONCE_BYTES = 12


class LocalEncryption:
    """``keys`` returns the present keys: the first wraps, and all of them unwrap."""

    def __init__(self, keys: Callable[[], Sequence[bytes]]) -> None:
        self._keys = keys

    async def current(self) -> str:
        return PREFIX + key_mark(self._keys()[0])

    async def wrap(self, secret: bytes, context: Context) -> Wrapped:
        nonce = chance.token_bytes(_NONCE_BYTES)
        return Wrapped(await self.current(), nonce + AESGCM(self._keys()[0]).encrypt(nonce, secret, bytes(context)))

    async def unwrap(self, wrapped: Wrapped, context: Context) -> bytes:
        nonce, secret = wrapped.secret[:_NONCE_BYTES], wrapped.secret[_NONCE_BYTES:]
        for key in self._keys():
            if wrapped.by == PREFIX + key_mark(key):
                try:
                    return AESGCM(key).decrypt(nonce, secret, bytes(context))
                except (InvalidTag, ValueError) as error:
                    raise Unreadable from error
        raise Unreadable
