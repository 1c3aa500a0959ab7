"""The portable reply: the same interface over a plain ASGI server, for tests and other servers.

ASGI's ``send`` is awaited and a reply's ``write`` is not, so a task and a queue connect them.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from penstock.domain.errors import BodyTooLarge, ClientGone
from penstock.intake.types import Headers, Message, Receive, Send

LOW_WATER_SHARE = 4
"""Part of the queue's bound at which writers continue."""


async def read_body(receive: Receive, limit: int, grow: Callable[[int], None]) -> bytes:
    """Return the whole body, or raise ``BodyTooLarge`` or ``ClientGone``; ``grow`` gets the bytes of each piece."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        grow(len(piece))
        body += piece
        if len(body) > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        if not message.get("more_body", False):
            return bytes(body)


def _no_headers() -> Headers:
    return []


class PlainReply:
    """Implements the pipeline's ``Reply``; ``end`` must be awaited."""

    def __init__(self, receive: Receive, send: Send, buffer_bytes: int) -> None:
        self._receive, self._send = receive, send
        self._buffer_bytes = buffer_bytes
        self._queue: asyncio.Queue[Message] = asyncio.Queue()
        self._waiting_bytes = 0
        self._is_paused = False
        self._is_gone = self._is_started = self._is_finished = False
        self._pumping: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._watcher: tuple[Callable[[], None], Callable[[], None], Callable[[], None]] | None = None
        self.decor: Callable[[], Headers] = _no_headers  # late bound: the exchange that decorates is made of the reply

    @property
    def started(self) -> bool:
        return self._is_started

    @property
    def gone(self) -> bool:
        return self._is_gone

    def prove(self) -> None: ...

    def start(self, status: int, headers: Headers) -> None:
        self._is_started = True
        all_headers = [*headers, *self.decor()]
        self._put({"type": "http.response.start", "status": status, "headers": all_headers})
        self._pumping = asyncio.create_task(self._pump())

    def write(self, data: bytes) -> None:
        if self._is_gone or not data:
            return
        self._put({"type": "http.response.body", "body": data, "more_body": True})
        self._waiting_bytes += len(data)
        if self._watcher and not self._is_paused and self._waiting_bytes > self._buffer_bytes:
            self._is_paused = True
            self._watcher[1]()

    def finish(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self._put({"type": "http.response.body", "body": b"", "more_body": False})

    def abort(self) -> None:
        """Stop sending; the server closes when the application returns unfinished."""
        self._is_gone = True
        if self._pumping is not None:
            self._pumping.cancel()

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self._watcher = (on_gone, on_pause, on_resume)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def end(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        if self._pumping is None:
            return
        if self._is_gone or not self._is_finished:
            self._pumping.cancel()
        with suppress(asyncio.CancelledError):
            await self._pumping

    def _put(self, message: Message) -> None:
        self._queue.put_nowait(message)

    async def _pump(self) -> None:
        more = True
        while more:
            message = await self._queue.get()
            await self._send(message)
            more = message.get("more_body", True)
            self._sent(len(message.get("body", b"")))

    def _sent(self, size: int) -> None:
        self._waiting_bytes -= size
        if self._is_paused and self._watcher and self._waiting_bytes <= self._buffer_bytes // LOW_WATER_SHARE:
            self._is_paused = False
            self._watcher[2]()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._is_gone and self._watcher and not self._is_finished:
            self._is_gone = True
            self._watcher[0]()
