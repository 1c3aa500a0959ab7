"""Links: each hash covers the one before it, its number in the chain, and the act with its row's id.

Fields are packed with their lengths, so no two acts give the same bytes. Times are hashed as stored and never compared.
"""

import hashlib
import struct

import msgspec

GENESIS = hashlib.sha256(b"penstock audit chain, format 1").digest()
"""The hash before link 1."""
_FIXED = struct.Struct(">QQd5I")


class Link(msgspec.Struct, frozen=True, gc=False):
    """An act in the chain; ``event`` is its row's id, ``at`` Unix seconds."""

    number: int
    event: int
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
