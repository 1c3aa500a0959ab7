"""A background response's events as a client follows them: from any number on, at any gateway, to its one end.

Pieces of events are read as they are kept; the first two events and the last follow from the response itself, so that
each gateway sends the same ones. A client that comes without a number sees the newest attempt alone; one that names a
number sees everything after it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Protocol

import msgspec

from penstock.domain.errors import ClientGone, ReaderTooSlow, StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import PayloadGone
from penstock.domain.jobs.stored_response import FIRST_EVENT, EventPiece
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred import response_bodies, response_events
from penstock.gateway.deferred.stored_responses import Found, StoredResponses
from penstock.lateness.awake import timeout

SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.05, 0.5
"""Seconds between two looks: the longer nothing comes, the longer they are. Each look is two indexed reads."""
BEAT_S = 15.0
"""Seconds of silence before a comment is sent: proxies end connections that say nothing."""
BEAT = b": waiting\n\n"
HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))
NOTHING_SEEN = -1
_BEFORE = ("response.created", "response.queued")


class StreamSlots(Protocol):
    def following(self, who: Principal) -> AbstractAsyncContextManager[None]:
        """Count as one of the key's and tenant's streams; entering raises ``OverLimit``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStream:
    stored: StoredResponses

    async def events(
        self, found: Found, begun: response_bodies.Object, after: int = NOTHING_SEEN
    ) -> AsyncIterator[bytes]:
        """Events beyond ``after``; a deleted response ends without a last one."""
        for number, kind in enumerate(_BEFORE):
            if number > after:
                yield response_events.encoded({"type": kind, "response": begun}, number)
        look = _Look(after)
        now: Found | None = found
        while now is not None:
            news, now = await self._step(now, look)
            for event in news:
                yield event
            if now is not None and await look.wait(is_news=bool(news)):
                yield BEAT

    async def _step(self, now: Found, look: "_Look") -> tuple[Sequence[bytes], Found | None]:
        """News since the last look, and the response now; None after its end."""
        stored = now.stored
        try:
            pieces = await self.stored.rows.events(stored.id, look.number, newest_only=look.is_fresh)
            if now.is_over and not pieces:
                return [await self._end(now, look.number)], None
            news = [await self._read(piece, stored.tenant, look.number) for piece in pieces]
            then = await self.stored.again(now)
        except StoreUnavailable:  # it comes back, and the client may wait
            return [], now
        except PayloadGone:
            return [], None
        look.saw(pieces)
        return news, then

    async def _read(self, piece: EventPiece, tenant: TenantId, seen: int) -> bytes:
        data = await self.stored.payloads.get(tenant, piece.object)
        return data if piece.first > seen else response_events.after(data, seen)

    async def _end(self, found: Found, seen: int) -> bytes:
        """The last event, which no piece holds."""
        number = (await self.stored.rows.begun(found.stored.id)).number
        if number <= seen:
            return b""
        body = await self.stored.body(found)
        event = {"type": response_bodies.last_event(body), "response": msgspec.Raw(body)}
        return response_events.encoded(event, number)


class _Look:
    def __init__(self, after: int) -> None:
        self.is_fresh = after < FIRST_EVENT
        self.number = max(after, FIRST_EVENT - 1)
        self._wait_s, self._silent_s = SHORTEST_WAIT_S, 0.0

    def saw(self, pieces: Sequence[EventPiece]) -> None:
        if pieces:
            self.number, self.is_fresh = pieces[-1].last, False

    async def wait(self, *, is_news: bool) -> bool:
        """Wait until it is time for another look; tell whether a beat is due."""
        self._wait_s = SHORTEST_WAIT_S if is_news else min(2 * self._wait_s, LONGEST_WAIT_S)
        self._silent_s = 0.0 if is_news else self._silent_s + self._wait_s
        await asyncio.sleep(self._wait_s)
        is_due = self._silent_s >= BEAT_S
        if is_due:
            self._silent_s = 0.0
        return is_due


async def sent(events: AsyncIterator[bytes], reply: Reply, stall_s: float) -> None:
    """At the reader's pace. Raises ``ClientGone`` or ``ReaderTooSlow``; the events stay kept."""
    room = asyncio.Event()
    room.set()
    copying = asyncio.create_task(_copied(events, reply, room, stall_s))
    reply.watch(on_gone=lambda: _cancel(copying), on_pause=room.clear, on_resume=room.set)
    if reply.gone:
        copying.cancel()
    try:
        await copying
    except asyncio.CancelledError:
        if reply.gone:
            raise ClientGone from None
        raise


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


async def _copied(events: AsyncIterator[bytes], reply: Reply, room: asyncio.Event, stall_s: float) -> None:
    reply.start(200, [*HEADERS, (b"x-accel-buffering", b"no")])
    async with aclosing(events):  # type: ignore[type-var]
        async for event in events:
            try:
                async with timeout(stall_s):
                    await room.wait()
            except TimeoutError as error:
                reply.abort()
                raise ReaderTooSlow from error
            reply.write(event)
    reply.finish()
