"""Links: each hash covers the one before it, its number in the chain, and the act with its row's id.

Fields are packed with their lengths, so no two acts give the same bytes. Times are hashed as stored and never compared.
"""

import hashlib
import struct
from typing import Annotated, NamedTuple

import msgspec

GENESIS = hashlib.sha256(b"penstock audit chain, format 1").digest()
"""The hash before link 1."""
_FIXED = struct.Struct(">qqd5I")
_OF_DATABASE = msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)
_INTERVENTION = struct.Struct(">iqd")


class Covered(NamedTuple):
    """An intervention of a filter; ``act`` is the row of the act that covers it."""

    act: int
    number: int
    position: int
    at: float
    request: str
    tenant: str
    version: str
    pack: str
    digest: str
    rule: str
    stage: str
    action: str
    wanted: str

    @property
    def packed(self) -> bytes:
        """What the act's SHA-256 covers of it, packed as the database does (``packed``)."""
        texts = [text.encode() for text in self[4:]]
        sized = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
        return _INTERVENTION.pack(self.number, self.position, self.at) + sized


class Link(msgspec.Struct, frozen=True, gc=False):
    """An act in the chain; ``event`` is its row's id, ``at`` Unix seconds."""

    number: Annotated[int, _OF_DATABASE]
    event: Annotated[int, _OF_DATABASE]
    hash: bytes
    at: float
    who: str
    what: str
    target: str
    detail: str
    tenant: str


def hashed(before: bytes, link: Link) -> bytes:
    """Return the hash that the link must have behind ``before``; its own is not read."""
    who, what, target = link.who.encode(), link.what.encode(), link.target.encode()
    detail, tenant = link.detail.encode(), link.tenant.encode()
    fixed = _FIXED.pack(link.number, link.event, link.at, len(who), len(what), len(target), len(detail), len(tenant))
    return hashlib.sha256(b"".join((before, fixed, who, what, target, detail, tenant))).digest()
