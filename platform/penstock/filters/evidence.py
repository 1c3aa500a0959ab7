"""The text of a match, for tenants that keep it: sealed under their key before it leaves the process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.ids import RequestId, TenantId
from penstock.filters.intervention import Intervention
from penstock.sealing.objects import ObjectOpener, ObjectSealer
from penstock.sealing.segments import Subject, TenantKey, header_of

_KIND = "match"
MOST_CHARACTERS = 1_024
"""Kept of a match: a regex finds no more, a phrase may with its blanks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedText:
    """The text of an intervention, which request and number name; times are Unix seconds."""

    request: RequestId
    number: int
    tenant: TenantId
    sealed: bytes
    at: float
    keep_until: float


def sealed(of: Intervention, text: str, key: TenantKey, keep_s: float) -> SealedText:
    sealer = ObjectSealer(key, _subject(of.tenant, of.request, of.number))
    return SealedText(
        request=of.request,
        number=of.number,
        tenant=of.tenant,
        sealed=sealer.write(text[:MOST_CHARACTERS].encode(errors="replace")) + sealer.finish(),
        at=of.at,
        keep_until=of.at + keep_s,
    )


def header(one: SealedText) -> bytes:
    """Raises ``Unreadable`` for what is no sealed object."""
    return header_of(one.sealed)


def opened(one: SealedText, secrets: Sequence[bytes]) -> str:
    """Raises ``Unreadable`` for text that was altered, or is another match's."""
    head = header(one)
    opener = ObjectOpener(secrets, _subject(one.tenant, one.request, one.number), head, len(one.sealed))
    (block,) = opener.blocks(0, None, 1)
    return opener.open(block, one.sealed[block.start : block.start + block.length]).decode()


def _subject(tenant: TenantId, request: RequestId, number: int) -> Subject:
    return Subject(_KIND, tenant, f"{request}/{number}")


class TextSink(Protocol):
    async def keep(self, texts: Sequence[SealedText]) -> None:
        """Store each text once, unless a deletion has come for it."""
        ...
