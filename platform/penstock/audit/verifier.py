"""Verification of a whole chain: its rows at one moment, its signed heads, and the shipped segments."""

import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from penstock.audit.links import GENESIS, Covered, Link
from penstock.audit.segments import SegmentStore, Signed, Unreadable, name_of, read
from penstock.audit.verification import (
    IsSigned,
    Kind,
    Report,
    Row,
    Stored,
    Walk,
    check_file,
    compare,
    heads_of,
    missing,
)
from penstock.domain.tenancy.audit import INTERVENTIONS

MOST_STRAYS = 100
INTERVENTIONS_AT_ONCE = 5_000
MOST_DIGITS = 9
KEPT_S = 90 * 86_400.0
"""Seconds for which the database keeps interventions at least."""
LINKED_WITHIN_S, SHIPPED_WITHIN_S = 60.0, 900.0
"""Seconds after which an act without a link, or a segment that is not shipped, is late."""
Progress = Callable[[int, int], None]
"""Called with the links that are verified, and their number in all."""


class StoredChain(Protocol):
    """The chain in the database, at one moment."""

    async def segments(self) -> list[Stored]: ...

    def pages(self, first: int) -> AsyncIterator[list[Row]]: ...

    async def interventions(self, acts: list[int]) -> list[Covered]: ...

    async def uncovered(self, most: int) -> list[int]: ...

    async def ends(self) -> tuple[int, int, int]: ...

    async def strays(self, most: int) -> tuple[list[int], list[int]]: ...

    async def waiting(self) -> tuple[int, float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """``late`` says in words what waits too long; ``kept_elsewhere`` counts segments that only the store has."""

    report: Report
    links: int
    """Links that were verified in the database."""
    last: int
    heads: int
    files: int
    kept_elsewhere: int
    late: list[str]

    def as_record(self) -> dict[str, object]:
        report = self.report
        return {
            "whole": report.is_whole,
            "links": self.links,
            "last": self.last,
            "heads": self.heads,
            "files": self.files,
            "links_in_files": report.rows - self.links,
            "kept_elsewhere": self.kept_elsewhere,
            "late": list(self.late),
            "counts": {str(kind): count for kind, count in report.counts.items()},
            "findings": [{"kind": str(one.kind), "link": one.number, "says": one.says} for one in report.findings],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    snapshot: Callable[[], AbstractAsyncContextManager[StoredChain]]
    is_signed: IsSigned
    store: SegmentStore | None
    """The store of shipped segments; None leaves it unread."""
    since: float = 0.0
    """Unix second: links of segments that were signed before are taken as their heads say."""
    now: float
    progress: Progress

    async def verify(self) -> Verified:
        report, files = Report(), 0
        async with self.snapshot() as chain:
            rows = await chain.segments()
            heads = heads_of(rows, self.is_signed, report)
            last = await self._walk(chain, rows, heads, report)
            late = [*await self._strays(chain, report), *_unshipped(rows, heads, self.now)]
        links = report.rows
        if self.store is not None:
            files = self._read(self.store, rows, heads, report)
        moved = sum(row.moved_at > 0 for row in rows)
        return Verified(
            report=report, links=links, last=last, heads=len(heads), files=files, kept_elsewhere=moved, late=late
        )

    async def _walk(self, chain: StoredChain, rows: list[Stored], heads: list[Signed], report: Report) -> int:
        there, end, outside = await chain.ends()
        if outside:
            report.add(Kind.INSERTED, 0, f"{outside:,} links have no number of the chain")
        if not (end or rows or (await chain.waiting())[0]):
            report.add(Kind.TRUNCATED, 0, "there are no acts at all, though setting up a database leaves some")
        known = [one.head.last for one in heads if one.head.at < self.since]
        skipped = max([_left(rows, heads, there, report), *known])
        before = next((one.head.hash for one in heads if one.head.last == skipped), GENESIS)
        walk = Walk(heads, report, first=skipped + 1, before=before)
        async for page in chain.pages(skipped + 1):
            walk.take(page)
            await self._check_interventions(chain, page, report)
            self.progress(report.rows, max(end - skipped, 0))
        return walk.end()

    async def _check_interventions(self, chain: StoredChain, page: list[Row], report: Report) -> None:
        """Hold interventions against the acts that cover them; those of an old act may all be gone."""
        for told in _at_once([row for row in page if row.act is not None and row.act[2] == INTERVENTIONS]):
            found: dict[int, list[Covered]] = {row.event: [] for row in told}
            for one in await chain.interventions([*found]):
                found[one.act].append(one)
            for row in told:
                kind = _kind_of(row, found[row.event], self.now)
                if kind is not None:
                    report.add(kind, row.number, f"interventions that act {row.event} covers are {kind}")

    async def _strays(self, chain: StoredChain, report: Report) -> list[str]:
        """Report acts without a link; return what waits too long, in words."""
        late, (unknown, lost) = list[str](), await chain.strays(MOST_STRAYS)
        for event in unknown:
            report.add(Kind.INSERTED, 0, f"{_named(event)} was written behind the sequencer's back: it has no link")
        for event in lost:
            report.add(Kind.DELETED, 0, f"{_named(event)} was deleted before it was linked")
        for event in await chain.uncovered(MOST_STRAYS):
            report.add(Kind.INSERTED, 0, f"interventions name {_named(event)}, which covers none")
        waiting, seconds = await chain.waiting()
        if seconds > LINKED_WITHIN_S:
            late.append(f"{waiting:,} acts have no link yet, the oldest for {seconds:,.0f} s")
        return late

    def _read(self, store: SegmentStore, rows: list[Stored], heads: list[Signed], report: Report) -> int:
        """Judge the shipped segments; return their number."""
        shipped = list[Signed]()
        skipped = max((one.head.last for one in heads if one.head.at < self.since), default=0)
        for name, versions in sorted(store.names(), key=lambda found: found[0].partition("/")[2]):
            if _last_of(name) <= skipped:
                continue
            if versions > 1:
                report.add(Kind.FORKED, 0, f"{name} has {versions} versions in the store; the oldest is judged")
            found = _file(store, name, report)
            if found is None or (shipped and shipped[-1].text == found[0].text):  # of a region that took over meanwhile
                continue
            earlier = shipped[-1] if shipped else None
            check_file(*found, earlier, self.is_signed, report, skipped + 1)
            shipped.append(found[0])
            self.progress(report.rows, report.rows)
        compare(heads, shipped, report)
        texts = {row.text: row for row in rows}
        missing([(one, texts[one.text]) for one in heads if one.head.last > skipped], shipped, report)
        return len(shipped)


def _named(event: int) -> str:
    return f"act {event}" if event >= 0 else "an act without an id"


def _at_once(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield acts that together cover as many interventions as are read at once."""
    part, size = list[Row](), 0
    for row in rows:
        if part and size + _count(row) > INTERVENTIONS_AT_ONCE:
            yield part
            part, size = [], 0
        part.append(row)
        size += _count(row)
    if part:
        yield part


def _count(row: Row) -> int:
    count = row.act[3] if row.act else ""
    return int(count) if count.isdecimal() and len(count) <= MOST_DIGITS else 0


def _kind_of(row: Row, found: list[Covered], now: float) -> Kind | None:
    at, digest = (row.act[0], row.act[4]) if row.act else (0.0, "")
    if not found and at < now - KEPT_S:
        return None
    if len(found) != _count(row):
        return Kind.DELETED if len(found) < _count(row) else Kind.INSERTED
    same = hashlib.sha256(b"".join(one.packed for one in found)).hexdigest() == digest
    return None if same else Kind.EDITED


def _left(rows: list[Stored], heads: list[Signed], there: int, report: Report) -> int:
    """Return the last link that left the database, of which ``there`` is the first link. The owner can mark a segment
    as moved, so that is heeded only if neither its links nor older ones are left.
    """
    known, left, is_oldest = {one.text: one.head for one in heads}, 0, True
    for row in rows:
        head = known.get(row.text)
        is_oldest = is_oldest and row.moved_at > 0
        if row.moved_at <= 0 or head is None:
            continue
        segment = f"the segment of links {head.first:,} to {head.last:,}"
        if row.shipped_at == 0:
            report.add(Kind.DELETED, head.first, f"{segment} left the database and was not shipped")
        if 0 < there <= head.last:
            report.add(Kind.EDITED, head.first, f"{segment} is called moved, but it or an older one is still there")
        elif is_oldest:
            left = head.last
    return left


def _unshipped(rows: list[Stored], heads: list[Signed], now: float) -> list[str]:
    """Say which segments are not shipped, if one is late: by its signed time, for the row's is the owner's to set."""
    waiting = {row.text for row in rows if row.shipped_at <= 0}
    ages = [now - one.head.at for one in heads if one.text in waiting]
    seconds = max(ages, default=0.0)
    if seconds <= SHIPPED_WITHIN_S:
        return []
    return [f"{len(ages):,} segments are not shipped, the oldest signed {seconds:,.0f} s ago"]


def _file(store: SegmentStore, name: str, report: Report) -> tuple[Signed, list[Link]] | None:
    content = store.read(name)
    try:
        one, links = read(content)
    except Unreadable as error:
        report.add(Kind.EDITED, 0, f"{name}: {error}")
        return None
    if name.rpartition("/")[2] != name_of(one, content):
        report.add(Kind.EDITED, one.head.first, f"{name} is another file than was shipped under this name")
    return one, links


def _last_of(name: str) -> int:
    """Return the last link that a file is named for; endless for another name, which is read and found out."""
    number = name.rpartition("/")[2].split("-")[1:2]
    return int(number[0]) if number and number[0].isdecimal() else sys.maxsize
