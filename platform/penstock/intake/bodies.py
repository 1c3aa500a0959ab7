"""Bounds the body of every route of an application: by bytes, by time and by address.

Nothing is read until the route asks for the body. An answer sent before the end of its request's body ends the
connection.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.errors import BodyTooLarge, ClientGone, PenstockError, RequestTimedOut
from penstock.domain.ids import TenantId
from penstock.intake.direct import EXTENSION, DirectReply
from penstock.intake.held import HeldBytes, Intake
from penstock.intake.limits import QUESTION_BYTES, Limits
from penstock.intake.types import App, Message, Receive, Refusal, Scope, Send
from penstock.lateness.awake import awake_time, timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyBound:
    """Bounds of one body. With ``least_bytes_s`` a large one gets more time: as long as it arrives at this rate."""

    most_bytes: int
    least_bytes_s: int = 0
    is_held: bool = True
    """Whether its bytes stay in memory until the answer; False for a route that passes them on as they come."""


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
        body = _Body(answer.guarded(receive), self, held, dict(scope["headers"]).get(b"content-length", b"0"))
        try:
            await self.app(scope, body.receive, answer.send)
        except Exception as error:  # noqa: BLE001  a bug of ours must not become a broken connection
            await answer.crash(self.crashed(error, scope))
        finally:
            held.release()


class _Body:
    def __init__(self, receive: Receive, bound: Bounded, held: HeldBytes, length: bytes) -> None:
        self._receive, self._bound, self._held, self._length = receive, bound, held, length
        self._left, self._until = bound.body.most_bytes, 0.0
        self._is_begun = self._is_whole = False

    async def receive(self) -> Message:
        """Return the next piece, or raise a ``PenstockError``; after the body, wait for the client to leave."""
        if self._is_whole:
            return await self._receive()
        if not self._is_begun:
            self._begin()
        try:
            async with timeout(self._until - awake_time().seconds()):  # of the whole body, not of a piece
                message = await self._receive()
        except TimeoutError as error:
            raise RequestTimedOut("the body was not received in time") from error
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._take(len(message.get("body", b"")), has_more=message.get("more_body", False))
        return message

    def _begin(self) -> None:
        self._is_begun, self._until = True, awake_time().seconds() + self._bound.limits.body_timeout_s
        if int(self._length) > self._left:  # the HTTP parser lets only digits through
            raise self._too_large()
        self._held.arrives()

    def _take(self, size: int, *, has_more: bool) -> None:
        self._left -= size
        if self._left < 0:
            raise self._too_large()
        if rate := self._bound.body.least_bytes_s:
            self._until += size / rate
        if self._bound.body.is_held:
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
        self._reply = reply if isinstance(reply, DirectReply) else None
        self._is_head = scope["method"] == "HEAD"
        self._send = send
        self._is_started = self._is_over = False

    def guarded(self, receive: Receive) -> Receive:
        return receive if self._reply is None else self._reply.guarded(receive)

    async def send(self, message: Message) -> None:
        is_start = message["type"] == "http.response.start"
        self._is_started = self._is_started or is_start
        self._is_over = not is_start and not message.get("more_body", False)
        if self._reply is None:
            await self._send(message)
        elif is_start:
            self._reply.start(message["status"], list(message.get("headers", ())))
        else:
            if not self._is_head:
                self._reply.write(message.get("body", b""))
            if self._is_over:
                self._reply.finish()

    async def crash(self, told: Refusal) -> None:
        if not self._is_started:
            status, headers, body = told
            await self.send({"type": "http.response.start", "status": status, "headers": headers})
            await self.send({"type": "http.response.body", "body": body})
        elif not self._is_over and self._reply is not None:
            self._reply.abort()


def prove(scope: Scope) -> None:
    reply = scope.get("extensions", {}).get(EXTENSION)
    if isinstance(reply, DirectReply):
        reply.prove()
