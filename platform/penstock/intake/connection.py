"""One client connection: uvicorn's httptools protocol, with bounds on the waits and bytes a client can cause.

A connection has one time limit, which the server's sweep checks: a timer per request would cost more than parsing.
Refusals here come before a request exists, so they need no ASGI.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from penstock.domain.errors import (
    BadRequest,
    HeadersTooLarge,
    Overloaded,
    PenstockError,
    RequestTimedOut,
    UnknownExpectation,
)
from penstock.domain.ids import RequestId
from penstock.intake.addresses import Addresses, Placed
from penstock.intake.direct import EXTENSION, DirectReply
from penstock.intake.limits import LINGER_BYTES, LINGER_S, Limits
from penstock.intake.types import Refusal
from penstock.lateness.awake import awake_time

if TYPE_CHECKING:
    import asyncio

PIPELINED = 4
"""Requests read ahead of the one being answered; more wait in the kernel's buffer."""
BODY_MARGIN_S = 2.0
"""The reader of a body gives up first and answers; this is the net below."""

RELAY_MARGIN_S = 2.0
"""Who answers gives up first, and says so in records; this is the net below."""


class Awaits(Enum):
    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"
    NEXT = "next"
    CLOSE = "close"


@dataclass(slots=True)
class Drain:
    """Whether the gateway drains; set by the server alone."""

    is_on: bool = False


class EdgeConfig(Config):
    limits: Limits
    answer: Callable[[PenstockError, RequestId], Refusal]
    """Gives a refusal as its API writes it, and is so told of it."""
    ids: Callable[[], str]
    addresses: Addresses[Placed]
    drain: "Drain"


class Connection(HttpToolsProtocol):
    """One connection; its requests find their reply in ``scope["extensions"]``."""

    config: EdgeConfig

    def connection_made(self, transport: "asyncio.Transport") -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limits, self._awake = self.config.limits, awake_time()
        self._replies: deque[DirectReply] = deque()
        self._refusal: PenstockError | None = None
        self._in_head = True
        self._head_bytes = 0
        self._discarded_bytes = self._content_bytes = 0
        self._framing_bytes = 0
        """Of the running body: sizes and extensions of its chunks, and its trailers."""
        self._has_declined = self._is_held = False
        self._raw_bytes_left = 0
        self._closing_since = 0.0
        self._unread_since, self._unread_bytes = self._awake.seconds(), 0
        self._expect(Awaits.HEAD, self._limits.header_timeout_s)
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        self._address = self.client[0] if self.client else ""
        self._is_proven = False
        stays, gives_way = self.config.addresses.enter(self._address, self, self._awake.seconds())
        if gives_way is not None:
            gives_way.transport.abort()
        if not stays:
            self._refuse(Overloaded("this gateway has too many connections", retry_after_s=1.0))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all requests of this connection, not only the newest."""
        for reply in list(self._replies):
            reply.lost()
        self._replies.clear()
        self.config.addresses.leave(self._address, self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._replies:
            self._replies[0].paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_held:
            self._go_on()
        elif self._replies:
            self._replies[0].resumed()

    # -- reading -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._awaits is Awaits.CLOSE:
            self._discard(len(data))
            return
        if self._has_declined:
            self._take_raw(data)
            return
        self._framing_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._break_off(self._refusal or BadRequest("this is not valid HTTP/1.1"))
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.header_bytes:
                self._break_off(HeadersTooLarge())
        elif self._awaits is Awaits.BODY and self._framing_bytes > self._limits.header_bytes + self._content_bytes:
            self._break_off(BadRequest("the body's chunks are more framing than content: send larger ones"))

    def on_body(self, body: bytes) -> None:
        self._content_bytes += len(body)
        self._framing_bytes -= len(body)
        super().on_body(body)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._counted_bytes = 0
        self._expect(Awaits.HEAD, self._limits.header_timeout_s)

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers are dropped, since they would be taken for headers."""
        if not self._in_head:
            return
        self._count(len(name) + len(value) + 4)
        if len(self.headers) >= self._limits.headers:
            self._refusal = HeadersTooLarge()
            raise self._refusal
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head()
        self.config.addresses.spoke(self._address, self)
        self._in_head = False
        self._content_bytes = self._framing_bytes = 0
        self._expect(Awaits.BODY, self._limits.body_timeout_s + BODY_MARGIN_S)
        super().on_headers_complete()
        reply = DirectReply(self, self.cycle)
        self.scope["extensions"] = {EXTENSION: reply}  # type: ignore[dict-item]  # the value is ours
        self._replies.append(reply)
        if self.config.drain.is_on:
            reply.last()
        if 1 < len(self._replies) <= PIPELINED:
            self.flow.resume_reading()  # reading on is how a disconnect is noticed

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = False
        if self._awaits is Awaits.BODY:
            self._rest()

    def _check_head(self) -> None:
        """Refuse a head that a proxy could read otherwise: host, version, transfer coding (RFC 9112, 3.2, 6.1);
        and an expectation that is not met here (RFC 9110, 10.1.1).
        """
        hosts, version = 0, self.parser.get_http_version()
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                self._refusal = BadRequest("the only transfer coding accepted is chunked")
            elif name == b"expect" and value.strip().lower() != b"100-continue":
                self._refusal = UnknownExpectation()
        if version not in {"1.0", "1.1"}:
            self._refusal = BadRequest("this is not valid HTTP/1.1")
        elif hosts > 1 or (hosts == 0 and version == "1.1"):
            self._refusal = BadRequest("an HTTP/1.1 request must have exactly one Host header")
        if self._refusal is not None:
            raise self._refusal

    # -- a client that proposes another protocol (h2c, WebSocket) is answered in HTTP/1.1, once ------

    def _decline(self, rest: bytes) -> None:
        """Refuse without the parser, which stops here; the content length gives the rest of the body."""
        self._has_declined = True
        self._last_request()
        headers = dict(self.headers)
        if b"transfer-encoding" in headers:
            self._break_off(BadRequest("a request that proposes another protocol must tell its length"))
            return
        self._raw_bytes_left = int(headers.get(b"content-length", 0))
        if self._raw_bytes_left:
            self.cycle.more_body = True
            self._expect(Awaits.BODY, self._limits.body_timeout_s + BODY_MARGIN_S)
            self._take_raw(rest)

    def _take_raw(self, data: bytes) -> None:
        if self._raw_bytes_left:
            data = data[: self._raw_bytes_left]
            self._raw_bytes_left -= len(data)
            self.on_body(data)
            if not self._raw_bytes_left:
                self.on_message_complete()

    def _count(self, size: int) -> None:
        self._counted_bytes += size
        if self._counted_bytes > self._limits.header_bytes:
            self._refusal = HeadersTooLarge()
            raise self._refusal

    # -- ending ------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        if self._replies:  # a lost connection has let go of them
            self._replies.popleft().forget()
        self.server_state.total_requests += 1
        if self.transport.is_closing() or self._awaits is Awaits.CLOSE:
            return
        if self._awaits is Awaits.NOTHING and not self.pipeline:
            self._rest()
        if self.flow.write_paused:
            self._is_held = True
            self.flow.pause_reading()
        else:
            self._go_on()

    def _go_on(self) -> None:
        self._is_held = False
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def close_after(self, *, unread: bool) -> None:
        if self.transport.is_closing():
            return
        if unread:
            self._expect(Awaits.CLOSE, LINGER_S)
            self.flow.resume_reading()
            if self.transport.can_write_eof():  # TLS has no half of a connection
                self.transport.write_eof()
        else:
            self.transport.close()

    def receives(self, cycle: RequestResponseCycle) -> None:
        if self._awaits is Awaits.BODY and cycle is self.cycle:
            self._expect(Awaits.BODY, self._limits.body_timeout_s + BODY_MARGIN_S)

    def prove(self) -> None:
        if not self._is_proven:
            self._is_proven = True
            self.config.addresses.prove(self._address)

    def shutdown(self) -> None:
        if self._replies:
            self._last_request()

    def is_idle(self) -> bool:
        return not self._replies and not (self._in_head and self._head_bytes)

    def sweep(self, now: float) -> None:
        """Act on time limits that have passed; ``now`` is in awake seconds."""
        if self.transport.is_closing():
            self._sweep_closing(now)
            return
        if self._leaves_unread(now):
            self.transport.abort()
        if now < self._expires_at or self._is_answering():
            return
        if self._awaits is Awaits.HEAD and self._head_bytes:
            self._refuse(RequestTimedOut("the headers were not received in time"))
        else:
            self.transport.close()

    def _sweep_closing(self, now: float) -> None:
        """Closing would wait for a client that stopped reading after its complete answer."""
        if self._closing_since == 0.0:
            self._closing_since = now
        elif now - self._closing_since > self._limits.unread_s:
            self.transport.abort()

    def _leaves_unread(self, now: float) -> bool:
        """True if nothing of a running answer was read, or not half of a whole one."""
        size = self.transport.get_write_buffer_size()
        is_read = self.flow.write_paused is False if self._replies else 2 * size <= self._unread_bytes
        if is_read or not size or not self._unread_bytes:
            self._unread_since, self._unread_bytes = now, size
        return now - self._unread_since > self._limits.unread_s + (RELAY_MARGIN_S if self._replies else 0.0)

    def _is_answering(self) -> bool:
        """Tell whether an answer is running that a slow next request must not cut off."""
        arriving = self._awaits is Awaits.BODY
        return len(self._replies) > arriving and self._awaits is not Awaits.CLOSE

    def _expect(self, what: Awaits, within_s: float) -> None:
        self._awaits = what
        self._expires_at = math.inf if within_s == math.inf else self._awake.seconds() + within_s

    def _rest(self) -> None:
        """Set the time limit: none while a request runs, otherwise that for the next request."""
        if self._replies:
            self._expect(Awaits.NOTHING, math.inf)
        else:
            self._expect(Awaits.NEXT, self._limits.keep_alive_s)

    def _last_request(self) -> None:
        if self._replies:
            self._replies[-1].last()

    def _break_off(self, error: PenstockError) -> None:
        """Stop reading; earlier requests are answered, the faulty one is refused."""
        if not self._replies:
            self._refuse(error)
            return
        self._last_request()
        if not self._in_head:
            self._replies[-1].spoil()
        self._expect(Awaits.CLOSE, math.inf)

    def _refuse(self, error: PenstockError) -> None:
        request_id = RequestId(f"req-{self.config.ids()}")
        status, headers, body = self.config.answer(error, request_id)
        headers += [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        lines = b"".join(b"%b: %b\r\n" % header for header in (*self.server_state.default_headers, *headers))
        self.transport.write(b"".join((STATUS_LINE[status], lines, b"\r\n", body)))
        self.close_after(unread=self._head_bytes > 0 or self._refusal is not None)

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._discarded_bytes > LINGER_BYTES and not self._replies:
            self.transport.abort()
