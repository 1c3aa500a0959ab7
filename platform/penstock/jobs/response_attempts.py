"""One attempt at a background response: its events are kept while they come, its last one becomes the job's answer.

Events go out in pieces: object first, row after, and the row only while this attempt holds the job. A runner that was
frozen keeps nothing, and ends its request.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.jobs.errors import PayloadGone, StorageFull
from penstock.domain.jobs.job import Job
from penstock.domain.jobs.payload import PayloadStore
from penstock.domain.jobs.stored_response import Begun, EventPiece, ResponseId, object_of
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.gateway.deferred import response_bodies
from penstock.gateway.deferred.response_bodies import Object
from penstock.gateway.deferred.response_events import AttemptEvents
from penstock.gateway.deferred.stored_responses import ResponseStore
from penstock.jobs.asking import request_id

KEEP_EVERY_S, KEEP_LATER_S, FIRST_PIECES = 0.2, 1.0, 50
"""Seconds between two pieces, each one object and one row: the first fifty, ten seconds of an answer, come quickly."""
TRIES, AGAIN_S = 10, 1.0
"""A store that is away gets a piece again for some seconds, as long as its restart takes; then the attempt fails."""
_OWN = ("id", "created_at", "background", "previous_response_id", "store", *response_bodies.ALIKE)


class AttemptRows(ResponseStore, Protocol):
    async def append(self, piece: EventPiece) -> bool:
        """Keep the row of a stored piece; False if this attempt no longer holds its job."""
        ...


class RunningBills(Protocol):
    def so_far(self, request: RequestId, output_tokens: int, now: float) -> LedgerRow | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseAttempts:
    rows: AttemptRows
    payloads: PayloadStore
    bills: RunningBills
    clock: Clock

    async def begin(self, job: Job) -> "AttemptReply":
        """Return the reply of an attempt; raises ``PayloadGone`` if the response was deleted."""
        response = ResponseId(job.name)
        stored = await self.rows.find(job.tenant, response)
        if stored is None:
            raise PayloadGone
        begun = await self.payloads.get(job.tenant, stored.object, 0, stored.begin_bytes)
        own = {name: value for name, value in response_bodies.decoded(begun).items() if name in _OWN}
        pieces = _Pieces(parts=self, job=job) if stored.keeps_events else None
        return AttemptReply(own, await self.rows.begun(response), pieces, self.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    parts: ResponseAttempts
    job: Job

    async def put(self, piece: EventPiece, data: bytes) -> bool:
        """Store a piece; False if the job has another holder. Raises the store's error if it stays away."""
        for left in reversed(range(TRIES)):
            try:
                with suppress(Conflict):  # an earlier try that seemed to fail
                    await self.parts.payloads.put(self.job.tenant, piece.object, data)
                return await self.parts.rows.append(piece)
            except (StoreUnavailable, StorageFull):
                if not left:
                    raise
                await asyncio.sleep(AGAIN_S)
        return False

    def named(self, first: int, last: int, reader: AttemptEvents, size_bytes: int) -> EventPiece:
        response, epoch = ResponseId(self.job.name), self.job.epoch
        return EventPiece(
            response=response,
            epoch=epoch,
            first=first,
            last=last,
            object=object_of(response, f"{epoch}-{first}"),
            size_bytes=size_bytes,
            items=reader.items,
            open=dict(reader.open),
            bill=self.parts.bills.so_far(request_id(self.job), reader.deltas, self.parts.clock.now()),
        )


def _nothing() -> None: ...


class AttemptReply:
    """The pipeline's ``Reply`` of a background response; ``close`` must be awaited."""

    def __init__(self, own: Object, begun: Begun, pieces: _Pieces | None, clock: Clock) -> None:
        self.started = self.is_fenced = self._is_unformed = False
        self._own, self._clock, self._pieces = own, clock, pieces
        self._reader, self._first = AttemptEvents(own, begun), begun.number
        self._waiting: list[bytes] = []
        self._news, self._ended = asyncio.Event(), asyncio.Event()
        self._on_gone: Callable[[], None] = _nothing
        self._keeping = None if pieces is None else asyncio.create_task(self._keep(pieces))

    @property
    def gone(self) -> bool:
        return self.is_fenced

    @property
    def is_published(self) -> bool:
        return self._pieces is not None

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del status, headers
        self.started = True

    def write(self, data: bytes) -> None:
        events = self._read(data)
        if self._pieces is not None and events:
            self._waiting += events
            self._news.set()

    def _read(self, data: bytes) -> list[bytes]:
        """Return the events to keep; an answer that can't be read is none."""
        if self._is_unformed:
            return []
        try:
            return self._reader.feed(data)
        except ValueError:
            self._is_unformed = True
            return []

    def finish(self) -> None: ...

    def abort(self) -> None: ...

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        del on_pause, on_resume
        self._on_gone = on_gone

    async def close(self) -> bytes:
        """Store what is left, and return the answer's body: empty if this attempt has none, or lost its job."""
        self._ended.set()
        self._news.set()
        if self._keeping is not None:
            await self._keeping
        final = self._reader.final
        if final is None or self.is_fenced or self._is_unformed:
            return b""
        return response_bodies.completed(final, self._own, self._clock.now(), self._reader.platforms)

    async def _keep(self, pieces: _Pieces) -> None:
        kept = 0
        while not self._ended.is_set():
            await self._news.wait()
            self._news.clear()
            await self._flush(pieces)
            kept += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_EVERY_S if kept < FIRST_PIECES else KEEP_LATER_S):
                    await self._ended.wait()
        await self._flush(pieces)

    async def _flush(self, pieces: _Pieces) -> None:
        events, self._waiting = self._waiting, []
        if not events or self.is_fenced:
            return
        first, self._first = self._first, self._first + len(events)
        data = b"".join(events)
        piece = pieces.named(first, self._first - 1, self._reader, len(data))
        if not await pieces.put(piece, data):
            self.is_fenced = True
            self._on_gone()
