"""Deletions that operators asked for: what is open is stopped, bytes go, then rows, and the receipt may be signed.

A user's requests and texts of matches are found by reading them, without an index. Responses that continue from one
have its text and go, too; a file with a line of the user goes with the batches that read it. Each step may be repeated,
cut off anywhere, and run by several runners at once.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from penstock.domain.errors import PenstockError
from penstock.domain.ids import TenantId
from penstock.domain.jobs.deletion import Deletion, Owned, ids_of, users
from penstock.domain.jobs.errors import PayloadGone, PayloadUnreadable
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import Extent, PayloadStore
from penstock.filters import evidence
from penstock.filters.evidence import SealedText
from penstock.jobs.lines import LineReader
from penstock.sealing.keys import Keys
from penstock.sealing.segments import Unreadable

EVERY_S = 2.0
AT_ONCE = 16
"""Deletions of one round."""
GROUP = 200
"""Rows of one round: their objects are some seconds of S3."""
KINDS = ("files", "lines", "jobs", "responses")
"""In this order: batches lead to their files."""
MOST_LINE_BYTES = 16 << 20
T = TypeVar("T")


class ErasingRows(Protocol):
    async def open(self, now: float, limit: int) -> Sequence[Deletion]: ...

    async def inputs(self, of: Deletion, after: str, limit: int) -> Sequence[tuple[str, Extent]]: ...

    async def batch_files(self, of: Deletion, after: str, limit: int) -> Sequence[tuple[str, ObjectId]]: ...

    async def texts(self, of: Deletion, after: str, limit: int) -> Sequence[SealedText]:
        """Return the first text of each request behind ``after``."""
        ...

    async def forget_texts(self, of: Deletion, requests: Sequence[str]) -> None: ...

    async def found(self, of: Deletion, names: Sequence[str]) -> None: ...

    async def stop(self, of: Deletion, now: float, limit: int) -> None: ...

    async def owned(self, kind: str, of: Deletion, limit: int) -> Sequence[Owned]: ...

    async def forget(self, kind: str, of: Deletion, gone: Sequence[Owned]) -> bool: ...

    async def swept(self, of: Deletion, now: float) -> bool: ...


Marks = Callable[[TenantId, str], Collection[str]]
"""Returns the digests of a user's name, under each key that the platform has."""


class Erasing:
    name = "erasing"
    every_s = EVERY_S

    def __init__(self, rows: ErasingRows, payloads: PayloadStore, keys: Keys, marks: Marks) -> None:
        self._rows, self._payloads, self._keys, self._marks = rows, payloads, keys, marks

    async def step(self, now: float) -> None:
        """Raises the last error of a store, after every deletion was tried."""
        failed: PenstockError | None = None
        for one in await self._rows.open(now, AT_ONCE):
            try:
                if one.is_unsearched:
                    await self._search(one)  # and the next step erases what was found
                else:
                    await self._erase(one, now)
            except PenstockError as error:
                failed = error
        if failed is not None:
            raise failed

    async def _erase(self, one: Deletion, now: float) -> None:
        await self._rows.stop(one, now, GROUP)
        for kind in KINDS:
            while found := await self._rows.owned(kind, one, GROUP):
                for name in (name for owned in found for name in owned.objects):
                    await self._payloads.delete(name)
                if not await self._rows.forget(kind, one, found):
                    break
        await self._rows.swept(one, now)

    async def _search(self, one: Deletion) -> None:
        names, earlier, after = set[str](), dict[str, object](), ""
        while inputs := await self._rows.inputs(one, after, GROUP):
            for owner, place in inputs:
                told = await self._told(one, place)
                if told is not None and told.previous_response_id:
                    earlier[owner] = told.previous_response_id
                if self._is_of(one, _users(told)):
                    names.add(owner)
            after = inputs[-1][0]
        while later := {owner for owner, turn in earlier.items() if turn in names} - names:
            names |= later
        after = ""
        while files := await self._rows.batch_files(one, after, GROUP):
            names |= {file for file, name in files if await self._has_line(one, name)}
            after = files[-1][0]
        await self._forget_texts(one)
        await self._rows.found(one, ids_of(names))

    async def _forget_texts(self, one: Deletion) -> None:
        """Forget those of the user, and those that may be."""
        after = ""
        while texts := await self._rows.texts(one, after, GROUP):
            await self._rows.forget_texts(one, [text.request for text in texts if await self._may_be_of(one, text)])
            after = texts[-1].request

    async def _may_be_of(self, one: Deletion, text: SealedText) -> bool:
        try:
            named = evidence.opened(text, await self._keys.opening(text.tenant, evidence.header(text))).users
        except Unreadable:
            return True
        return named is None or self._is_of(one, named)

    async def _told(self, one: Deletion, place: Extent) -> "_Request | None":
        try:
            body = await self._payloads.get(one.scope.tenant, place.object, place.at, place.size)
        except (PayloadGone, PayloadUnreadable):
            return None
        return _read(body, _Request)

    async def _has_line(self, one: Deletion, name: ObjectId) -> bool:
        reader = LineReader(MOST_LINE_BYTES)
        try:
            async for piece in self._payloads.read(one.scope.tenant, name):
                if any(self._is_of(one, _of_line(line.raw)) for line in reader.feed(piece)):
                    return True
        except (PayloadGone, PayloadUnreadable):
            return False
        return any(self._is_of(one, _of_line(line.raw)) for line in reader.end())

    def _is_of(self, one: Deletion, named: Iterable[str]) -> bool:
        return any(one.scope.user_mark in self._marks(one.scope.tenant, user) for user in named)


class _Request(msgspec.Struct):
    """The fields of all APIs that name a user, and the turn that a response goes on from: it has that turn's text."""

    user: object = None
    safety_identifier: object = None
    metadata: object = None
    previous_response_id: object = None


class _BatchLine(msgspec.Struct):
    body: _Request = msgspec.field(default_factory=_Request)


def _read(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _of_line(raw: bytes) -> frozenset[str]:
    line = _read(raw, _BatchLine) if raw else None
    return _users(line.body if line else None)


def _users(told: _Request | None) -> frozenset[str]:
    return users(told.user, told.safety_identifier, told.metadata) if told is not None else frozenset()
