"""One spool file: JSON lines of openings, progress, interventions and closed rows, written by one process.

A line is written whole by one ``write``; a torn last line (full disk, lost node) is ignored when read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import LedgerRow, Opening, close
from penstock.domain.tokens import Usage
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Intervention


class DeliveredTokens(msgspec.Struct, tag="progress", frozen=True):
    """Delivered tokens by request, only of requests with a changed count."""

    at: float
    tokens: dict[RequestId, int]


class Opened(msgspec.Struct, tag="opened", frozen=True):
    opening: Opening


class Closed(msgspec.Struct, tag="closed", frozen=True):
    row: LedgerRow


class Filtered(msgspec.Struct, tag="filtered", frozen=True):
    intervention: Intervention


class Matched(msgspec.Struct, tag="matched", frozen=True):
    text: SealedText


Line = Opened | DeliveredTokens | Closed | Filtered | Matched
_decoder = msgspec.json.Decoder(Line)
encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class History:
    open: dict[RequestId, Opening] = field(default_factory=dict)
    tokens: dict[RequestId, int] = field(default_factory=dict)
    last_seen: float = 0.0
    rows: list[LedgerRow] = field(default_factory=list)
    interventions: list[Intervention] = field(default_factory=list)
    texts: list[SealedText] = field(default_factory=list)

    def take(self, line: Line) -> None:
        match line:
            case Opened(opening=opening):
                self.open[opening.request] = opening
                self.last_seen = max(self.last_seen, opening.opened_at)
            case DeliveredTokens(at=at, tokens=tokens):
                self.tokens.update(tokens)
                self.last_seen = max(self.last_seen, at)
            case Closed(row=row):
                self.open.pop(row.request, None)
                self.rows.append(row)
                self.last_seen = max(self.last_seen, row.closed_at)
            case Filtered(intervention=intervention):
                self.interventions.append(intervention)
            case Matched(text=text):
                self.texts.append(text)

    def lost(self, took: Mapping[RequestId, Usage]) -> list[LedgerRow]:
        return [self._lost(opening, took.get(opening.request)) for opening in self.open.values()]

    def _lost(self, opening: Opening, usage: Usage | None) -> LedgerRow:
        """Close a dead process's request by its known usage, else by prompt and delivered tokens."""
        if usage is None:
            tokens = self.tokens.get(opening.request, 0)
            prompt = opening.prompt_tokens if tokens else 0
            usage = Usage(prompt_tokens=prompt, output_tokens=tokens, exact=False)
        gpu_s = self._gpu_s(opening) if usage.total_tokens else 0.0
        return close(opening, Outcome.INTERNAL, usage, gpu_s=gpu_s, now=self.last_seen)

    def _gpu_s(self, opening: Opening) -> float:
        beside = sum(other.version == opening.version for other in self.open.values())
        return max(0.0, self.last_seen - opening.opened_at) / max(1, beside)


def lines(path: Path) -> Iterator[Line]:
    for raw in path.read_bytes().split(b"\n"):
        try:
            yield _decoder.decode(raw)
        except msgspec.DecodeError:
            continue
