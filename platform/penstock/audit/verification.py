"""What breaks a chain, told apart: links and heads in, findings out.

A broken link costs one finding: the next is judged by the hash that is stored. From a head that differs on, the chain
was rewritten. Trade-off: an act that leaves before its link does so unseen; the sequencer keeps that to a second.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from typing import NamedTuple

from penstock.audit.links import GENESIS, Link, hashed
from penstock.audit.segments import Signed, Unreadable

MOST = 100
"""Findings of one kind that are listed; further ones are counted."""
IsSigned = Callable[[Signed], bool]


class Kind(StrEnum):
    EDITED = "edited"
    DELETED = "deleted"
    INSERTED = "inserted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    FORKED = "forked"
    REWRITTEN = "rewritten"
    SIGNATURE = "signature"


class Finding(NamedTuple):
    """``number`` is the link's, or 0 for an act without one."""

    kind: Kind
    number: int
    says: str


class Stored(NamedTuple):
    """A segment as the database has it: the signed text, its signature, and what stands beside it."""

    text: str
    signature: bytes
    first: int
    last: int
    closed_at: float
    shipped_at: float
    """0: not yet, as ``moved_at``."""
    moved_at: float


class Row(NamedTuple):
    """A link; ``act`` is None if the act's row is missing."""

    number: int
    event: int
    hash: bytes
    act: tuple[float, str, str, str, str, str] | None

    @property
    def link(self) -> Link | None:
        return None if self.act is None else Link(self.number, self.event, self.hash, *self.act)


@dataclass
class Report:
    findings: list[Finding] = field(default_factory=list)
    counts: dict[Kind, int] = field(default_factory=dict)
    rows: int = 0
    """Links whose acts were hashed."""

    def add(self, kind: Kind, number: int, says: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MOST:
            self.findings.append(Finding(kind, number, says))

    @property
    def is_whole(self) -> bool:
        return not self.counts


def heads_of(segments: Iterable[Stored], is_signed: IsSigned, report: Report, since: int = 1) -> list[Signed]:
    """Return the readable heads in order; each must carry on from the one before and be signed with a known key."""
    heads: list[Signed] = []
    for stored in segments:
        try:
            one = Signed.of(stored.text, stored.signature)
        except Unreadable as error:
            report.add(Kind.SIGNATURE, 0, str(error))
            continue
        check_head(one, heads[-1] if heads else None, is_signed, report, since)
        head = one.head
        times = (stored.closed_at, stored.shipped_at, stored.moved_at)
        if (stored.first, stored.last) != (head.first, head.last) or not all(0 <= at < math.inf for at in times):
            report.add(Kind.EDITED, head.last, f"what stands beside the head at link {head.last:,} was edited")
        heads.append(one)
    return heads


def check_head(one: Signed, earlier: Signed | None, is_signed: IsSigned, report: Report, since: int = 1) -> None:
    head = one.head
    if not is_signed(one):
        report.add(Kind.SIGNATURE, head.last, f"the head at link {head.last:,} is not signed with a known key")
    first = earlier.head.last + 1 if earlier else since
    before = earlier.head.hash if earlier else GENESIS if since == 1 else head.before
    if head.first > first:
        report.add(Kind.DELETED, first, f"no signed head covers links {first:,} to {head.first - 1:,}")
    elif head.first < first:
        report.add(Kind.FORKED, head.first, f"two signed heads cover link {head.first:,}")
    elif head.before != before:
        report.add(
            Kind.FORKED, head.first, f"the head at link {head.last:,} follows another chain than the head before"
        )


class Walk:
    """Links in order against each other and against ``heads``, from link ``first`` behind the hash ``before``."""

    def __init__(self, heads: Sequence[Signed], report: Report, *, first: int = 1, before: bytes = GENESIS) -> None:
        self._report, self._next, self._before = report, first, before
        self._first = first
        self._heads = {one.head.last: one.head for one in heads if one.head.last >= first}
        self._is_rewritten = False
        self._suspects: list[tuple[bytes, Row]] = []

    def take(self, rows: Iterable[Row]) -> None:
        report = self._report
        for row in rows:
            if row.number < self._next:
                report.add(Kind.INSERTED, row.number, f"link {row.number:,} is there twice")
                continue
            if row.number > self._next:
                report.add(Kind.DELETED, self._next, f"links {self._next:,} to {row.number - 1:,} are missing")
            elif (link := row.link) is None:
                report.add(Kind.DELETED, row.number, f"act {row.event} of link {row.number:,} is missing")
            elif hashed(self._before, link) != row.hash:
                self._suspect(row)
            report.rows += row.act is not None
            self._before, self._next = row.hash, row.number + 1
            if row.number in self._heads:
                self._meet(row)

    def _suspect(self, row: Row) -> None:
        if len(self._suspects) < MOST:
            self._suspects.append((self._before, row))
        else:
            self._report.add(Kind.EDITED, row.number, f"link {row.number:,} does not fit its act")

    def _meet(self, row: Row) -> None:
        if self._heads[row.number].hash != row.hash and not self._is_rewritten:
            self._is_rewritten = True
            self._report.add(
                Kind.REWRITTEN, row.number, f"link {row.number:,} is another than the signed head says: rewritten"
            )

    def end(self, last: int = 0) -> int:
        """Judge what is left; ``last`` is the number that a head elsewhere tells. Return the last link's number."""
        reached, told = self._next - 1, max([last, *self._heads])
        if reached < told and told >= self._first:
            self._report.add(
                Kind.TRUNCATED, reached, f"the chain ends at link {reached:,}; a signed head says {told:,}"
            )
        for row, other in _exchanged(self._suspects):
            says = f"link {row.number:,} has the act of link {other.number:,}" if other else ""
            kind = Kind.REORDERED if other else Kind.EDITED
            self._report.add(kind, row.number, says or f"link {row.number:,} does not fit its act {row.event}")
        return reached


def _exchanged(suspects: Sequence[tuple[bytes, Row]]) -> Iterable[tuple[Row, Row | None]]:
    """Pair each row that does not fit with the row of the act that its link was made for, if that is among them."""
    own: dict[int, Row] = {}
    for (before, row), (_, other) in permutations(suspects, 2):
        if hashed(before, Link(row.number, other.event, row.hash, *(other.act or ()))) == row.hash:
            own[row.number] = other
    return [(row, own.get(row.number)) for _, row in suspects]


def check_file(
    one: Signed, links: Sequence[Link], earlier: Signed | None, is_signed: IsSigned, report: Report, since: int = 1
) -> None:
    """Judge one shipped segment: its head, and its links between the head's two hashes."""
    check_head(one, earlier, is_signed, report, since)
    walk = Walk([one], report, first=one.head.first, before=one.head.before)
    walk.take(
        Row(own.number, own.event, own.hash, (own.at, own.who, own.what, own.target, own.detail, own.tenant))
        for own in links
    )
    walk.end()


def compare(stored: Sequence[Signed], shipped: Sequence[Signed], report: Report) -> None:
    """Hold the database's heads against the shipped ones: a chain rewritten there can't change these."""
    known = {one.head.last: one for one in stored}
    for one in shipped:
        here = known.get(one.head.last)
        if here is not None and here.text != one.text:
            report.add(
                Kind.FORKED, one.head.last, f"the shipped head at link {one.head.last:,} is another than the stored"
            )
        if here is None and stored and stored[0].head.first <= one.head.last < stored[-1].head.last:
            report.add(Kind.FORKED, one.head.last, f"a shipped head at link {one.head.last:,} is not in the database")
    if shipped and (not stored or shipped[-1].head.last > stored[-1].head.last):
        last = stored[-1].head.last if stored else 0
        report.add(
            Kind.TRUNCATED, last, f"the database's last head is {last:,}; the shipped one is {shipped[-1].head.last:,}"
        )


def missing(stored: Sequence[tuple[Signed, Stored]], shipped: Sequence[Signed], report: Report) -> None:
    """Report segments that the database calls shipped and the store lacks."""
    there = {one.head.last for one in shipped}
    for one, row in stored:
        if row.shipped_at > 0 and one.head.last not in there:
            report.add(
                Kind.DELETED,
                one.head.first,
                f"the shipped segment of links {one.head.first:,} to {one.head.last:,} is missing",
            )
