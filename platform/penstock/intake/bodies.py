"""Bounds the body of every route of an application: by bytes, by time and by address.

Nothing is read until the route asks for the body. An answer sent before the end of its request's body ends the
connection.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.domain.errors import BodyTooLarge, ClientGone, CompressedBody, PenstockError, RequestTimedOut
from penstock.domain.ids import TenantId
from penstock.intake.direct import EXTENSION, DirectReply
from penstock.intake.held import HeldBytes, Intake
from penstock.intake.limits import QUESTION_BYTES, Limits
from penstock.intake.types import App, Message, Receive, Refusal, Scope, Send
from penstock.lateness.awake import awake_time, timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyBound:
    """Bounds of a body; with ``least_bytes_s`` a large one gets more time: as long as it arrives at this rate, and no
    piece takes longer than a whole small body may.
    """

    most_bytes: int
    least_bytes_s: int = 0
    held_bytes: int | None = None
    """Bytes in memory of a body that its route passes on as it comes, counted from its first to its last piece; None:
    all of it stays until the answer.
    """


QUESTION = BodyBound(most_bytes=QUESTION_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    app: App
    limits: Limits
    body: BodyBound
    intake: Intake
    crashed: Callable[[Exception, Scope], Refusal]
    """Called with a fault; returns its answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = _Answer(scope, send)
        held = self.intake.begin(TenantId(str((scope.get("client") or ("",))[0])))
        body = _Body(answer, receive, self, held, dict(scope["headers"]))
        try:
            await self.app(scope, body.receive, answer.send)
        except Exception as error:  # noqa: BLE001  a bug of ours must not become a broken connection
            await answer.crash(self.crashed(error, scope))
        finally:
            held.release()


class _Body:
    def __init__(
        self, answer: "_Answer", receive: Receive, bound: Bounded, held: HeldBytes, head: Mapping[bytes, bytes]
    ) -> None:
        self._receive, self._bound, self._held, self._head = answer.guarded(receive), bound, held, head
        self._reply = answer.reply
        self._left, self._waited_s, self._patience_s = bound.body.most_bytes, 0.0, bound.limits.body_timeout_s
        self._is_begun = self._is_whole = False

    async def receive(self) -> Message:
        """Raises a ``PenstockError``; after the body, wait for the client to leave."""
        if self._is_whole:
            return await self._receive()
        if not self._is_begun:
            self._begin()
        began = awake_time().seconds()
        try:
            async with timeout(self._piece_s()):
                message = await self._receive()
        except TimeoutError as error:
            raise RequestTimedOut("the body was not received in time") from error
        self._waited_s += awake_time().seconds() - began
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._take(len(message.get("body", b"")), has_more=message.get("more_body", False))
        return message

    def _begin(self) -> None:
        self._is_begun = True
        if self._head.get(b"content-encoding", b"identity") != b"identity":
            raise CompressedBody
        if int(self._head.get(b"content-length", b"0")) > self._left:  # the HTTP parser lets only digits through
            raise self._too_large()
        self._held.arrives()
        if (window := self._bound.body.held_bytes) is not None:
            self._held.grow(window)

    def _piece_s(self) -> float:
        if self._bound.body.least_bytes_s and self._reply is not None:
            self._reply.still_receives()
        return min(self._patience_s - self._waited_s, self._bound.limits.body_timeout_s)

    def _take(self, size: int, *, has_more: bool) -> None:
        self._left -= size
        if self._left < 0:
            raise self._too_large()
        if rate := self._bound.body.least_bytes_s:
            self._patience_s += size / rate
        if self._bound.body.held_bytes is None:
            self._held.grow(size)
        if not has_more:
            self._is_whole = True
            self._held.is_here()

    def _too_large(self) -> PenstockError:
        return BodyTooLarge(f"the body is larger than {self._bound.body.most_bytes} bytes")


class _Answer:
    """Sends the answer, over the connection's own reply or a plain ASGI server's."""

    def __init__(self, scope: Scope, send: Send) -> None:
        reply = scope.get("extensions", {}).get(EXTENSION)
        self.reply = reply if isinstance(reply, DirectReply) else None
        self._is_head = scope["method"] == "HEAD"
        self._send = send
        self._is_started = self._is_over = False
        self._room: asyncio.Event | None = None

    def guarded(self, receive: Receive) -> Receive:
        return receive if self.reply is None else self.reply.guarded(receive)

    async def send(self, message: Message) -> None:
        is_start = message["type"] == "http.response.start"
        self._is_started = self._is_started or is_start
        self._is_over = not is_start and not message.get("more_body", False)
        if self.reply is None:
            await self._send(message)
        elif is_start:
            self.reply.start(message["status"], list(message.get("headers", ())))
        else:
            if not self._is_head:
                self.reply.write(message.get("body", b""))
            if self._is_over:
                self.reply.finish()
            else:
                await self._read(self.reply)

    async def _read(self, reply: DirectReply) -> None:
        """Wait until the client has read most of what was written; raises ``ClientGone``."""
        if self._room is None:
            self._room = room = asyncio.Event()
            room.set()
            reply.watch(on_gone=room.set, on_pause=room.clear, on_resume=room.set)
        await self._room.wait()
        if reply.gone:
            raise ClientGone

    async def crash(self, told: Refusal) -> None:
        if not self._is_started:
            status, headers, body = told
            await self.send({"type": "http.response.start", "status": status, "headers": headers})
            await self.send({"type": "http.response.body", "body": body})
        elif not self._is_over and self.reply is not None:
            self.reply.abort()


def prove(scope: Scope) -> None:
    reply = scope.get("extensions", {}).get(EXTENSION)
    if isinstance(reply, DirectReply):
        reply.prove()
