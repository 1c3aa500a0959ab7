"""Verification of the audit chain: database, signing keys and bucket put together."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.apps.settings.processes import ControllerSettings
from penstock.apps.stores import database_dsn, open_segments
from penstock.audit.links import GENESIS, Link
from penstock.audit.segments import SegmentStore, Signed, Unreadable, name_of, read
from penstock.audit.verification import (
    Kind,
    Report,
    Stored,
    Walk,
    check_file,
    compare,
    heads_of,
    missing,
)
from penstock.connectors.postgres.audit_chain import ChainSnapshot, snapshot
from penstock.connectors.postgres.database import Database
from penstock.connectors.signing.heads import KnownKeys
from penstock.connectors.signing.keys import PUBLIC
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import PenstockError
from penstock.mounted.secret_file import previous

MOST_STRAYS = 100
SLOWER = 60.0
"""The database's time limits are multiplied by this: a whole log is compared in one statement."""
LINKED_WITHIN_S, SHIPPED_WITHIN_S = 60.0, 900.0
"""Seconds after which an act without a link, or a segment that is not shipped, is late."""
Progress = Callable[[int, int], None]
"""Called with the links that are verified, and their number in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """``late`` says in words what waits too long; ``kept_elsewhere`` counts segments that only the store has."""

    report: Report
    last: int
    heads: int
    files: int
    kept_elsewhere: int
    late: list[str]

    def as_record(self) -> dict[str, object]:
        report = self.report
        return {
            "whole": report.is_whole,
            "links": report.rows,
            "last": self.last,
            "heads": self.heads,
            "files": self.files,
            "kept_elsewhere": self.kept_elsewhere,
            "late": list(self.late),
            "counts": {str(kind): count for kind, count in report.counts.items()},
            "findings": [{"kind": str(one.kind), "link": one.number, "says": one.says} for one in report.findings],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    database: Database
    keys: KnownKeys
    store: SegmentStore | None
    """The store of shipped segments; None leaves it unread."""
    since: float = 0.0
    """Unix second: links of segments that were signed before are taken as their heads say."""
    progress: Progress

    async def verify(self) -> Verified:
        report, files = Report(), 0
        async with snapshot(self.database) as chain:
            rows = await chain.segments()
            heads = heads_of(rows, self._is_signed, report)
            last = await self._walk(chain, rows, heads, report)
            late = await self._strays(chain, report)
        if self.store is not None:
            files = self._read(self.store, rows, heads, report)
        moved = sum(row.moved_at > 0 for row in rows)
        return Verified(report=report, last=last, heads=len(heads), files=files, kept_elsewhere=moved, late=late)

    def _is_signed(self, one: Signed) -> bool:
        return self.keys.has_signed(one.head.key, one.covered, one.signature)

    def _skipped(self, rows: list[Stored], heads: list[Signed]) -> int:
        """Return the number of the last link that its head alone vouches for: moved out, or before ``since``."""
        moved = {row.text for row in rows if row.moved_at > 0}
        return max((one.head.last for one in heads if one.text in moved or one.head.at < self.since), default=0)

    async def _walk(self, chain: ChainSnapshot, rows: list[Stored], heads: list[Signed], report: Report) -> int:
        skipped = self._skipped(rows, heads)
        before = next((one.head.hash for one in heads if one.head.last == skipped), GENESIS)
        walk = Walk(heads, report, first=skipped + 1, before=before)
        total = max(await chain.last() - skipped, 0)
        async for page in chain.pages(skipped + 1):
            walk.take(page)
            self.progress(report.rows, total)
        return walk.end()

    async def _strays(self, chain: ChainSnapshot, report: Report) -> list[str]:
        """Report acts without a link; return what waits too long, in words."""
        late, (unknown, lost) = list[str](), await chain.strays(MOST_STRAYS)
        for event in unknown:
            report.add(Kind.INSERTED, 0, f"act {event} was written behind the sequencer's back: it has no link")
        for event in lost:
            report.add(Kind.DELETED, 0, f"act {event} was deleted before it was linked")
        waiting, seconds = await chain.waiting()
        if seconds > LINKED_WITHIN_S:
            late.append(f"{waiting:,} acts have no link yet, the oldest for {seconds:,.0f} s")
        unshipped, seconds = await chain.unshipped()
        if seconds > SHIPPED_WITHIN_S:
            late.append(f"{unshipped:,} segments are not shipped, the oldest signed {seconds:,.0f} s ago")
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
            check_file(*found, earlier, self._is_signed, report, skipped + 1)
            shipped.append(found[0])
            self.progress(report.rows, report.rows)
        compare(heads, shipped, report)
        texts = {row.text: row for row in rows}
        missing([(one, texts[one.text]) for one in heads if one.head.last > skipped], shipped, report)
        return len(shipped)


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


async def verify(
    settings: ControllerSettings,
    clock: Clock,
    *,
    from_bucket: bool,
    since: float = 0.0,
    public_keys: tuple[Path, ...] = (),
    progress: Progress,
) -> Verified:
    keys = _keys(settings, public_keys)
    store = open_segments(settings, clock) if from_bucket else None
    async with Database(database_dsn(settings), max_connections=1, slower=SLOWER) as database:
        try:
            return await Verifier(database=database, keys=keys, store=store, since=since, progress=progress).verify()
        except PenstockError as error:
            raise CommandError(
                f"The chain could not be verified: {error.message}.",
                do="Check PENSTOCK_DATABASE_URL, PENSTOCK_AUDIT_URL and the rights of this account.",
            ) from error


def _keys(settings: ControllerSettings, files: tuple[Path, ...]) -> KnownKeys:
    if settings.audit_signing_key and not files:
        from penstock.connectors.signing.kms import KmsKey

        return KnownKeys([KmsKey(settings.audit_signing_key).pem])
    home = settings.paths.signing / PUBLIC
    try:
        known = files or [path for path in (home, previous(home)) if path == home or path.is_file()]
        return KnownKeys([path.read_bytes() for path in known])
    except (OSError, ValueError) as error:
        raise CommandError(
            f"There is no public key to verify the chain with: {error}.",
            do="Name the platform's public key with --public-key; that of this home is signing/public.pem.",
        ) from error
