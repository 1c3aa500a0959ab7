"""Idempotency keys: the same key with the same body gets the same answer, at any gateway (A8).

A record is opened by the first request, grows while the answer comes, and is replayed or followed by later ones.
Answers that never started (429, 503), were refused or broke off are not kept: the key can be used again.

Records use their own tenant's quota: if it is full, the tenant's oldest complete ones are removed.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from penstock.domain.ids import TenantId


class RecordKey(NamedTuple):
    """The caller's key is hashed: keys of different tenants can't collide."""

    tenant: TenantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerQuota:
    """A piece counts its bytes and ``PIECE_BYTES``."""

    max_bytes: int = 64 << 20
    max_records: int = 50_000


USUAL_QUOTA = AnswerQuota()
PIECE_BYTES = 128
"""The approximate cost of keeping a piece, beside its data."""
MAX_KEY_CHARS = 255
KEEP_S = 24 * 3600.0
ALIVE_S = 10.0
"""Seconds after each sign of life for which a growing record belongs to its gateway; then the key is free again."""


class Claim(StrEnum):
    MINE = "mine"
    """No record: this request answers, and records."""
    SAME = "same"
    """The same request's answer, complete: repeat it."""
    GROWING = "growing"
    """The same request's answer, in progress: follow it."""
    OTHER = "other"
    """Another body's answer: refuse."""
    FULL = "full"
    """No record and no room: answers in progress use the tenant's whole quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The first is the head (status, type, version, request, usage), body bytes follow, then the end."""

    status: int = 0
    content_type: str = ""
    version: str = ""
    data: bytes = b""
    is_end: bool = False
    request: str = ""
    used: bytes = b""
    """Of the head: the request's usage as the gate reports it; None if not reported by then."""
    rule: str = ""
    """Of the head: the auto alias's rule that decided."""


class AnswerStore(Protocol):
    """Gateways share it; calls may raise ``StoreUnavailable``."""

    async def claim(self, key: RecordKey, fingerprint: str) -> Claim:
        """Atomically open a record with this fingerprint, or return the existing one's state."""
        ...

    async def has(self, key: RecordKey) -> bool:
        """The key has a record, complete or growing, for any body."""
        ...

    async def append(self, key: RecordKey, piece: Piece, keep_s: float = KEEP_S) -> None:
        """An empty piece renews the record for ``keep_s``.

        Raises ``Conflict`` if the record has another writer, or was dropped because the tenant's quota is full.
        """
        ...

    async def release(self, key: RecordKey) -> None: ...

    async def drop(self, key: RecordKey) -> None:
        """Drop a record, also of another gateway: its answer was deleted."""
        ...

    async def forget(self, tenant: TenantId) -> int:
        """Drop all records of a tenant, also those that grow; return their number."""
        ...

    def follow(self, key: RecordKey) -> AsyncIterator[Piece]:
        """Waits for future pieces. Raises ``Conflict`` if the answer broke off: the caller may try again."""
        ...
