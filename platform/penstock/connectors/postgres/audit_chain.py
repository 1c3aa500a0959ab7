"""The audit chain's tables. One transaction at a time extends it; keys refuse a second link or head of a number."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from asyncpg import Record

from penstock.audit.links import GENESIS, Covered, Link, hashed
from penstock.audit.segments import Head, Signed, Unreadable
from penstock.audit.verification import Row, Stored
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict

_SQL = load("audit_chain")
PAGE = 5_000
"""Links that are read at once: about 2 MB, 30 ms."""
LAST = (1 << 63) - 1
"""The greatest number that the database holds."""
HASH_BYTES = 32
_ACT = (float, str, str, str, str, str)
_COVERED = (int, int, int, float, *(str,) * 9)
_SEGMENT = (str, bytes, int, int, float, float, float)
_TABLES = ["audit_event", "audit_link", "audit_segment", "audit_pending", "intervention"]
_UNSOUND: dict[type, object] = {int: -1, float: -1.0, str: "\0", bytes: b""}
"""Read in place of a null, or of another type: the tables' owner can drop a constraint. No act or head has these."""


class PostgresAuditChain:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._own: tuple[int, bytes] | None = None

    async def extend(self, most: int) -> int:
        """Link acts that have no link yet; return how many. ``Conflict`` if the link that this process wrote last is
        another by now: until a head covers it, nothing else would tell.
        """
        async with self._database.transaction() as session:
            await session.run(_SQL["alone"])
            number, before = await _tail(session)
            if self._own and self._own != (number, before):
                await _check_kept(session, number, *self._own)
            rows = await session.rows(_SQL["pending"], most)
            numbers, events, hashes = range(number + 1, number + 1 + len(rows)), list[int](), list[bytes]()
            for number, (event, *act) in zip(numbers, rows, strict=True):
                before = hashed(before, Link(number, event, b"", *_sound(act, _ACT)))
                events.append(event)
                hashes.append(before)
            if rows:
                await session.run(_SQL["link"], list(numbers), events, hashes)
                await session.run(_SQL["linked"], events)
        self._own = (number, before) if rows else self._own
        return len(rows)

    async def lag_s(self) -> float:
        """Return the seconds for which the oldest act has waited for its link, by the database's clock."""
        row = await self._database.row(_SQL["waiting"])
        return float(row["seconds"]) if row else 0.0

    async def unsigned(self) -> tuple[Head | None, int]:
        """Return the newest head, and the number of the last link."""
        async with self._database.transaction() as session:
            number, _ = await _tail(session)
            return await _newest_head(session), number

    async def hash_of(self, number: int) -> bytes:
        row = await self._database.row(_SQL["hash"], number)
        assert row is not None, number  # noqa: S101  links leave with a segment alone, and this one has none yet
        return bytes(row["hash"])

    async def close(self, segment: Signed) -> None:
        """Store a signed head; one that another controller stored meanwhile is kept."""
        head = segment.head
        await self._database.rows(_SQL["close"], head.last, head.first, segment.text, segment.signature)

    async def unshipped(self, most: int) -> tuple[Signed, ...]:
        rows = await self._database.rows(_SQL["unshipped"], most)
        found = list[Signed]()
        for row in rows:
            with suppress(Unreadable):
                found.append(Signed.of(*_sound(row, _SEGMENT[:2])))
        return tuple(found)

    async def count_unshipped(self) -> int:
        row = await self._database.row(_SQL["count_unshipped"])
        return int(row["segments"]) if row else 0

    async def links(self, head: Head) -> list[Link]:
        """Return a segment's links; fewer, if rows are missing."""
        rows = await self._database.rows(_SQL["links"], head.first, head.last, head.last - head.first + 1)
        return [link for row in rows if (link := _row(row).link) is not None]

    async def shipped(self, last: int) -> None:
        await self._database.rows(_SQL["shipped"], last)

    async def move(self, keep_s: float) -> bool:
        """Take the oldest segment's rows out of the database if it was shipped this long ago, by the database's clock;
        tell whether it did.
        """
        row = await self._database.row(_SQL["old"], keep_s)
        if row is None or not row["is_old"]:
            return False
        await self._database.rows(_SQL["move"], row["last"])
        return True


@dataclass(frozen=True, slots=True)
class ChainSnapshot:
    session: Session

    async def segments(self) -> list[Stored]:
        return [Stored(*_sound(row, _SEGMENT)) for row in await self.session.rows(_SQL["segments"])]

    async def pages(self, first: int) -> AsyncIterator[list[Row]]:
        while page := await self.session.rows(_SQL["links"], first, LAST, PAGE):
            yield [*map(_row, page)]
            first = page[-1]["number"] + 1

    async def strays(self, most: int) -> tuple[list[int], list[int]]:
        """Return ids of acts that nothing knows of, and of awaited acts that are gone; -1 for a null."""
        unknown, lost = await self.session.rows(_SQL["strays"], most), await self.session.rows(_SQL["lost"], most)
        return [_sound(row, (int,))[0] for row in unknown], [_sound(row, (int,))[0] for row in lost]

    async def interventions(self, acts: list[int]) -> list[Covered]:
        return [Covered(*_sound(row, _COVERED)) for row in await self.session.rows(_SQL["interventions"], acts)]

    async def uncovered(self, most: int) -> list[int]:
        """Return acts that interventions name and that are not there; -1 for a null."""
        return [_sound(row, (int,))[0] for row in await self.session.rows(_SQL["uncovered"], most)]

    async def ends(self) -> tuple[int, int, int]:
        """Return the numbers of the first and the last link, 0 without links; and the count of those below 1."""
        row = await self.session.row(_SQL["ends"])
        return (int(row["first"]), int(row["last"]), int(row["outside"])) if row else (0, 0, 0)

    async def waiting(self) -> tuple[int, float]:
        """Return the number of acts without a link, and the age of the oldest in seconds."""
        row = await self.session.row(_SQL["waiting"])
        return (int(row["events"]), float(row["seconds"])) if row else (0, 0.0)


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[ChainSnapshot]:
    async with database.transaction() as session:
        await session.run(_SQL["still"])
        if strange := await session.rows(_SQL["strange"], _TABLES):
            raise Conflict(f"{strange[0]['name']} is no table: something else stands for it")
        yield ChainSnapshot(session)


def _sound(row: Iterable[Any], kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """Return the values; one that is of another kind than its column had is replaced."""
    values = tuple(row)
    if tuple(map(type, values)) == kinds:
        return values
    return tuple(value if type(value) is kind else _UNSOUND[kind] for value, kind in zip(values, kinds, strict=True))


def _row(found: Record) -> Row:
    number, event, own = _sound(found[:3], (int, int, bytes))
    return Row(number, event, own, None if found["id"] is None else _sound(found[4:], _ACT))


async def _tail(session: Session) -> tuple[int, bytes]:
    """Return the last link; ``Conflict`` if links that a head covers are missing: no other may take their numbers."""
    row, head = await session.row(_SQL["tail"]), await _newest_head(session)
    number, own = _sound(row, (int, bytes)) if row else (0, b"")
    if row and (number < 1 or len(own) != HASH_BYTES):
        raise Conflict("the audit chain's last link was damaged: `penstock audit verify` says how")
    if row and (head is None or number >= head.last):
        return number, own
    if head is None:
        return 0, GENESIS
    kept = await session.row(_SQL["is_moved"], head.last)
    if not kept or not kept["is_moved"]:
        raise Conflict("the audit chain ends before its signed head: `penstock audit verify` says what is missing")
    return head.last, head.hash


async def _check_kept(session: Session, tail: int, number: int, kept: bytes) -> None:
    """Raise ``Conflict`` if a link is not as it was written; one behind which others are may have been moved since."""
    row = await session.row(_SQL["hash"], number)
    if tail < number or (row is not None and bytes(row["hash"]) != kept):
        raise Conflict(f"link {number:,} of the audit chain is not as this controller wrote it: it was tampered with")


async def _newest_head(session: Session) -> Head | None:
    row = await session.row(_SQL["newest_head"])
    try:
        return Signed.of(*_sound(row, _SEGMENT[:2])).head if row else None
    except Unreadable as error:
        raise Conflict("the audit chain's newest head was damaged: `penstock audit verify` says how") from error
