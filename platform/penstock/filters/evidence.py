"""The text of a match, for tenants that keep it: sealed under their key before it leaves the process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from penstock.domain.ids import RequestId, TenantId
from penstock.filters.intervention import Intervention
from penstock.sealing.objects import ObjectOpener, ObjectSealer
from penstock.sealing.segments import Subject, TenantKey, Unreadable, header_of

_KIND = "match"
MOST_CHARACTERS = 1_024
"""Kept of a match: a regex finds no more, a phrase may with its blanks."""
MOST_KEPT = 10_000
"""Texts kept of a tenant: 3 MB as a rule, 80 at most. A thousand matches a second fill that in ten seconds."""


class MatchText(NamedTuple):
    text: str
    users: tuple[str, ...] | None = ()
    """End users that the request names; None if that was too long to be kept: each of them may be meant."""


_DECODER = msgspec.msgpack.Decoder(MatchText)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedText:
    """The text of an intervention, which request and number name; times are Unix seconds."""

    request: RequestId
    number: int
    tenant: TenantId
    sealed: bytes
    at: float
    keep_until: float


def sealed(of: Intervention, match: MatchText, key: TenantKey, keep_s: float) -> SealedText:
    text = match.text[:MOST_CHARACTERS].encode(errors="replace").decode()
    sealer = ObjectSealer(key, _subject(of.tenant, of.request, of.number))
    return SealedText(
        request=of.request,
        number=of.number,
        tenant=of.tenant,
        sealed=sealer.write(msgspec.msgpack.encode(match._replace(text=text))) + sealer.finish(),
        at=of.at,
        keep_until=of.at + keep_s,
    )


def header(one: SealedText) -> bytes:
    """Raises ``Unreadable`` for what is no sealed object."""
    return header_of(one.sealed)


def opened(one: SealedText, secrets: Sequence[bytes]) -> MatchText:
    """Raises ``Unreadable`` for text that was altered, or is another match's."""
    head = header(one)
    opener = ObjectOpener(secrets, _subject(one.tenant, one.request, one.number), head, len(one.sealed))
    (block,) = opener.blocks(0, None, 1)
    try:
        return _DECODER.decode(opener.open(block, one.sealed[block.start : block.start + block.length]))
    except msgspec.DecodeError as error:
        raise Unreadable from error


def _subject(tenant: TenantId, request: RequestId, number: int) -> Subject:
    return Subject(_KIND, tenant, f"{request}/{number}")


class TextSink(Protocol):
    async def keep(self, texts: Sequence[SealedText]) -> None:
        """Store each text once, unless a deletion has come for it, or its tenant has ``MOST_KEPT``."""
        ...
