"""Segments: a stretch of the chain that ends at a signed head, and its file of JSON lines.

A file's first line is the head with its signature, each other line a link. Its name carries its digest: a name that is
taken is the same file.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from penstock.audit.links import Link

FORMAT = 1
_TYPE = b"application/vnd.penstock.audit-head+json"
SUFFIX = ".jsonl"
_DIGEST_CHARS = 16


class Unreadable(ValueError):
    """This is no segment of an audit chain."""


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed: links ``first`` to ``last`` lead from one hash to the other. ``key`` is the signing key's
    fingerprint, ``at`` the signer's clock in Unix seconds, for people alone.
    """

    format: int = FORMAT
    first: int
    last: int
    before: bytes
    hash: bytes
    region: str
    at: float
    key: str


@dataclass(frozen=True, slots=True)
class Signed:
    """A head, its text as it was signed, and the signature."""

    head: Head
    text: str
    signature: bytes

    @classmethod
    def of(cls, text: str, signature: bytes) -> "Signed":
        try:
            head = _HEADS.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise Unreadable(f"a signed head can't be read: {error}") from error
        if head.format != FORMAT:
            raise Unreadable(f"a signed head has format {head.format}; this program reads format {FORMAT}")
        return cls(head, text, signature)

    @property
    def covered(self) -> bytes:
        return covered(self.text.encode())


class Signer(Protocol):
    """Signs heads with the platform's key; may raise ``StoreUnavailable``."""

    @property
    def fingerprint(self) -> str: ...

    def sign(self, message: bytes) -> bytes: ...


class SegmentStore(Protocol):
    """Files of segments, by region. ``StoreUnavailable`` if it refuses."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file; a file that has this name already is kept as it is."""
        ...

    def names(self) -> Iterable[tuple[str, int]]:
        """Return the files of all regions as ``region/name`` with the number of their versions."""
        ...

    def read(self, name: str) -> bytes:
        """Return the oldest version of the file ``region/name`` that the store has."""
        ...


_HEADS = msgspec.json.Decoder(Head)
_LINKS = msgspec.json.Decoder(Link)


def covered(body: bytes, kind: bytes = _TYPE) -> bytes:
    """Return the bytes that a signature covers: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)


def signed(signer: Signer, head: Head) -> Signed:
    text = msgspec.json.encode(head).decode()
    return Signed(head, text, signer.sign(covered(text.encode())))


def written(segment: Signed, links: Iterable[Link]) -> bytes:
    first = msgspec.json.encode({"head": segment.text, "signature": base64.b64encode(segment.signature).decode()})
    return b"\n".join((first, *map(msgspec.json.encode, links), b""))


def name_of(segment: Signed, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
    return f"{segment.head.first:020d}-{segment.head.last:020d}-{digest}{SUFFIX}"


class _First(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    head: str
    signature: bytes


def read(content: bytes) -> tuple[Signed, list[Link]]:
    first, *lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    try:
        found = msgspec.json.decode(first, type=_First)
        return Signed.of(found.head, found.signature), [_LINKS.decode(line) for line in lines]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"a segment can't be read: {error}") from error
