"""The fast reply to a client: it writes to the transport itself.

A streamed token costs one ``transport.write``: no task switch, no ASGI message. uvicorn's request-response cycle is
updated, for keep-alive, pipelining and disconnects.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from penstock.domain.errors import BadRequest
from penstock.intake.types import Headers, Message, Receive

if TYPE_CHECKING:
    import asyncio

EXTENSION = "penstock.reply"
"""The reply's name among the scope's extensions."""

_CHUNKED = b"transfer-encoding: chunked\r\n"
_CLOSE = b"connection: close\r\n"
_END = b"0\r\n\r\n"


def _nothing() -> None: ...


def _no_headers() -> Headers:
    return []


class ClientConnection(Protocol):
    transport: "asyncio.Transport"
    loop: "asyncio.AbstractEventLoop"

    def prove(self) -> None: ...

    def receives(self, cycle: RequestResponseCycle) -> None:
        """The request's own reader bounds the rest of its body."""
        ...

    def close_after(self, *, unread: bool) -> None:
        """Close once everything is sent; ``unread``: the client may still send its body."""
        ...


class DirectReply:
    __slots__ = ("_chunked", "_connection", "_cycle", "_head", "_on_gone", "_on_pause", "_on_resume", "broken", "decor")

    def __init__(self, connection: ClientConnection, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle
        self._head: tuple[int, Headers] | None = None
        self._chunked = False
        self._on_gone = self._on_pause = self._on_resume = _nothing
        self.broken = False
        """The request's body can't be read to its end: its framing is wrong."""
        self.decor: Callable[[], Headers] = _no_headers
        """Headers that every reply of this request carries, asked for when the head is sent."""

    # -- the request's body ----------------------------------------------------------

    def whole_body(self, limit: int) -> bytes | None:
        cycle = self._cycle
        if cycle.more_body or self.broken or len(cycle.body) > limit:
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        return body

    def spoil(self) -> None:
        self.broken = True
        self._cycle.keep_alive = False
        self._cycle.message_event.set()

    def guarded(self, receive: Receive) -> Receive:
        """Return a ``receive`` that raises ``BadRequest`` if the rest of the body is unreadable."""

        async def receive_or_raise() -> Message:
            message = await receive()
            if self.broken:
                raise BadRequest("the body's chunks are not valid HTTP/1.1")
            return message

        return receive_or_raise

    def still_receives(self) -> None:
        self._connection.receives(self._cycle)

    def prove(self) -> None:
        self._connection.prove()

    # -- the reply -----------------------------------------------------------------------

    @property
    def started(self) -> bool:
        return self._cycle.response_started

    @property
    def gone(self) -> bool:
        return self._cycle.disconnected

    def start(self, status: int, headers: Headers) -> None:
        self._cycle.response_started = True
        self._head = (status, headers)

    def write(self, data: bytes) -> None:
        if self._cycle.disconnected or not data:
            return
        head = self._compose(self._head, ends=False) if self._head is not None else b""
        if self._chunked:
            self._connection.transport.write(b"%b%x\r\n%b\r\n" % (head, len(data), data))
        else:
            self._connection.transport.write(head + data if head else data)

    def finish(self) -> None:
        """End the body; close the connection if it is not kept alive."""
        cycle = self._cycle
        if cycle.response_complete:
            return
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.disconnected:
            if self._head is not None:
                self._connection.transport.write(self._compose(self._head, ends=True))
            elif self._chunked:
                self._connection.transport.write(_END)
            if not cycle.keep_alive:
                self._connection.close_after(unread=cycle.more_body)
        cycle.on_response()

    def abort(self) -> None:
        self.forget()
        self._cycle.disconnected = True
        self._connection.transport.abort()

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        if self._cycle.disconnected:
            self._connection.loop.call_soon(on_gone)
            return
        self._on_gone, self._on_pause, self._on_resume = on_gone, on_pause, on_resume
        if self._cycle.flow.write_paused:
            self._connection.loop.call_soon(on_pause)

    def _compose(self, head: tuple[int, Headers], *, ends: bool) -> bytes:
        status, headers = head
        self._head = None
        cycle = self._cycle
        has_length = any(name == b"content-length" for name, _ in headers)
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers, *self.decor()):
            parts += (name, b": ", value, b"\r\n")
        if cycle.more_body or cycle.scope["http_version"] == "1.0":
            cycle.keep_alive = False  # an unread body, or a client that can't tell where a body of no length ends
        if not has_length and ends:
            parts.append(b"content-length: 0\r\n")
        elif not has_length and cycle.scope["http_version"] != "1.0":
            self._chunked = True
            parts.append(_CHUNKED)
        if not cycle.keep_alive:
            parts.append(_CLOSE)
        parts.append(b"\r\n")
        return b"".join(parts)

    def forget(self) -> None:
        """Callbacks and waiters refer to this reply. Such a cycle of references waits for the garbage collector, which
        delays every stream of the process while it runs.
        """
        self._on_gone = self._on_pause = self._on_resume = _nothing
        self.decor = _no_headers
        self._cycle.scope.pop("extensions", None)

    # -- what happens to the connection ----------------------------------------------------

    def lost(self) -> None:
        if not self._cycle.disconnected:
            self._cycle.disconnected = True
            self._cycle.message_event.set()
            self._on_gone()
            self.forget()

    def last(self) -> None:
        self._cycle.keep_alive = False

    def paused(self) -> None:
        self._on_pause()

    def resumed(self) -> None:
        self._on_resume()
