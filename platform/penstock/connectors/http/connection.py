"""One connection to a worker, and one request on it.

Bytes go from the socket through the parser into the receiver's callbacks within one iteration of the event loop: no
queue, no task switch, no copy.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import httptools

from penstock.connectors.http.read_scheduler import SLICE_BYTES, ReadScheduler
from penstock.domain.serving.transport import Receiver

_FIRST_FINAL_STATUS = 200
"""Statuses below it are interim (RFC 9110, section 15.2): the final response follows."""


class WorkerExchange:
    """Calls have no effect once the connection runs the next exchange."""

    __slots__ = ("aborted", "answered", "connection", "receiver", "request", "reused")

    def __init__(self, receiver: Receiver, request: bytes) -> None:
        self.receiver = receiver
        self.request = request
        self.connection: Connection | None = None
        self.reused = False
        self.answered = False
        self.aborted = False

    def hand_over(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def pause(self) -> None:
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        if self.connection is not None:
            self.connection.resume()

    def abort(self) -> None:
        self.aborted = True
        if self.connection is not None:
            self.connection.abort()


class Connection(asyncio.Protocol):
    """``on_free``: the connection is usable again, or closed. ``on_stale``: closed before any byte of the answer; the
    request must be sent again.
    """

    def __init__(
        self,
        reads: ReadScheduler,
        on_free: Callable[["Connection"], None],
        on_stale: Callable[[WorkerExchange], None],
    ) -> None:
        self._reads = reads
        self._kept: deque[memoryview] = deque()
        """Bytes that were read and wait for their turn; the socket is not read meanwhile."""
        self._is_waiting = False
        self._on_free = on_free
        self._on_stale = on_stale
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._complete: WorkerExchange | None = None
        self._pieces: list[bytes] = []
        self._has_head = False
        self._keep_alive = True
        self._paused = False
        self.exchange: WorkerExchange | None = None
        self.opened_at = 0.0
        self.idle_since = 0.0

    # -- for the pool ------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        return self._keep_alive and self._transport is not None and not self._transport.is_closing()

    def run(self, exchange: WorkerExchange) -> None:
        self.exchange = exchange
        exchange.connection = self
        if self._transport is not None:
            self._transport.write(exchange.request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # -- for the exchange --------------------------------------------------------------

    def pause(self) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            if not self._kept:
                self._transport.pause_reading()

    def resume(self) -> None:
        was_paused, self._paused = self._paused, False
        if self._kept:
            self._wait()
        elif was_paused:
            self._read_on()

    def abort(self) -> None:
        self._detach()
        self._kept.clear()
        self._keep_alive = False
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's callbacks -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._kept or self._paused:
            self._kept.append(memoryview(data))
            self._wait()
        elif len(data) <= SLICE_BYTES and self._reads.takes(len(data)):
            self._read(data)
        else:
            self._kept.append(memoryview(data))
            self._pass_slices()

    def pass_slice(self) -> bool:
        self._is_waiting = False
        if not self._kept or self._paused:
            return False
        self._read(self._slice())
        if self._kept:
            self._is_waiting = not self._paused
        elif not self._paused:
            self._read_on()
        return self._is_waiting

    def _pass_slices(self) -> None:
        """Pass slices on while this iteration of the event loop has time."""
        while self._kept and not self._paused and self._reads.takes(min(SLICE_BYTES, len(self._kept[0]))):
            self._read(self._slice())
        if self._kept or self._paused:
            self._hold_reading()
        if self._kept:
            self._wait()

    def _slice(self) -> memoryview:
        data = self._kept.popleft()
        if len(data) > SLICE_BYTES:
            self._kept.appendleft(data[SLICE_BYTES:])
        return data[:SLICE_BYTES]

    def _wait(self) -> None:
        if not self._is_waiting and not self._paused:
            self._is_waiting = True
            self._reads.wait(self)

    def _hold_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _read(self, data: bytes | memoryview) -> None:
        exchange = self.exchange
        if exchange is None or self._parser is None:
            # Nobody asked: whatever a worker says unasked must never become the next caller's answer.
            self._keep_alive = False
            self._kept.clear()
            self.close()
            return
        if not exchange.answered:
            exchange.answered = True
            exchange.request = b""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keep_alive = False
            self._pass_on(exchange)
            if self._complete is None:
                self._break(error.__context__ or error)
        else:
            self._pass_on(exchange)
        if self._complete is not None:
            self._finish(self._complete)

    def _pass_on(self, exchange: WorkerExchange) -> None:
        pieces = self._pieces
        if not pieces:
            return
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if exchange.aborted:
            return
        try:
            exchange.receiver.on_body(data)
        except Exception as error:  # noqa: BLE001  a receiver's bug ends its own exchange, not the event loop's callback
            self._keep_alive = False
            self._complete = None
            self.exchange = exchange
            self._break(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        while self._kept:
            self._read(self._slice())
        exchange = self._detach()
        ends_with_socket = exc is None and exchange is not None and self._reads_until_close()
        self._transport = self._parser = None
        self._keep_alive = False
        self._on_free(self)
        if exchange is None:
            return
        if exchange.reused and not exchange.answered:
            self._on_stale(exchange)
        elif ends_with_socket:
            exchange.receiver.on_end(None)
        else:
            exchange.receiver.on_end(exc or ConnectionResetError("the worker closed the connection early"))

    # -- the parser's callbacks --------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser is None or self.exchange is None:
            self._keep_alive = False  # a second answer to one request
            return
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL_STATUS:
            self._has_head = True
            self.exchange.receiver.on_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        if self.exchange is not None:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        """Processed after the parser, since the receiver may send a new request at once."""
        if self._parser is None or self.exchange is None:
            return
        if self._parser.get_status_code() < _FIRST_FINAL_STATUS:
            self._headers = []
            return
        self._complete = self._detach()
        self._keep_alive = self._keep_alive and not self._kept and bool(self._parser.should_keep_alive())

    # -- ends --------------------------------------------------------------------------

    def _detach(self) -> WorkerExchange | None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.connection = None
        return exchange

    def _finish(self, exchange: WorkerExchange) -> None:
        self.resume()
        self._complete = None
        self._headers = []
        self._has_head = False
        if self._keep_alive:
            self._on_free(self)
        else:
            self.close()
        if not exchange.aborted:
            exchange.receiver.on_end(None)

    def _break(self, error: BaseException) -> None:
        exchange = self._detach()
        if self._transport is not None:
            self._transport.abort()
        if exchange is not None:
            exchange.receiver.on_end(error)

    def _reads_until_close(self) -> bool:
        """Only closing the connection ends the answer (RFC 9112, section 6.3)."""
        if not self._has_head:
            return False
        framed = {b"content-length", b"transfer-encoding"}
        return not any(name.lower() in framed for name, _ in self._headers)
