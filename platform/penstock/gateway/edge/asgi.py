"""The hot path: one request of an inference API from its head to its last byte, in pure ASGI.

Identity first, from the credential alone: a stranger is refused before the body is read. Then the body under its
limits, then parsing, then the corridor. Whatever goes wrong before the first byte becomes one line of the error
table; after it, the relay has already said it in band.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.call import Call, Timings
from penstock.domain.clock import Clock
from penstock.domain.errors import (
    BodyTooLarge,
    ClientGone,
    Draining,
    MalformedBody,
    OverBudget,
    OverLimit,
    PenstockError,
    RequestTimedOut,
)
from penstock.domain.ids import RequestId
from penstock.domain.outcome import Stage
from penstock.domain.relay import Reply
from penstock.domain.request import Api, InferenceRequest
from penstock.domain.tenant import Principal
from penstock.gateway.edge import head
from penstock.gateway.edge.bounds import BodyBounds
from penstock.gateway.edge.direct import EXTENSION, DirectReply
from penstock.gateway.edge.errors import Headers, in_band, response_of
from penstock.gateway.edge.intake import Held, Intake
from penstock.gateway.edge.limits import Limits
from penstock.gateway.edge.looks import Looks
from penstock.gateway.edge.observer import ErrorObserver
from penstock.gateway.edge.parse import COUNT_TOKENS, Parsed, check_bounded, parse
from penstock.gateway.edge.plain import PlainReply, read_body
from penstock.gateway.edge.reading import INLINE_BYTES, BodyReader, is_small, model_of
from penstock.gateway.edge.types import App, Receive, Scope, Send
from penstock.gateway.pipeline import Identity

_LONG = len(str(INLINE_BYTES))
"""Digits of a length that may be too much to be read on the event loop."""
PATHS: dict[str, Api] = {str(api): api for api in Api}


class Corridor(Protocol):
    """What serves an identified, parsed request: the pipeline."""

    async def serve(self, call: Call, reply: Reply) -> None:
        """Answer it; raise a ``PenstockError`` only before the reply has started."""
        ...


Serve = Callable[[Call, Reply], Awaitable[None]]


async def _let_in(_who: Principal, _model: str) -> None:
    """Nobody is over a limit."""


async def _unrecorded(_who: Principal, _idempotency_key: str) -> bool:
    """Nobody keeps answers."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The ASGI application: the inference APIs here, everything else in ``rest``."""

    corridor: Corridor
    counting: Corridor
    identity: Identity
    clock: Clock
    limits: Limits
    ids: Callable[[], str]
    observer: ErrorObserver
    rest: App
    reader: BodyReader = field(default_factory=BodyReader)
    intake: Intake = field(default_factory=Intake)
    looks: Looks = field(default_factory=Looks)
    refuse_early: Callable[[Principal, str], Awaitable[None]] = _let_in
    """Raises what a caller would hear for any request for this model, or for any at all."""
    is_recorded: Callable[[Principal, str], Awaitable[bool]] = _unrecorded
    """Tells whether there may be an answer under a caller's idempotency key."""
    bounds: Callable[[], BodyBounds] = BodyBounds
    """How much a request may ask for now."""
    trace: Callable[[str], str] = str
    """The caller's ``traceparent`` (or nothing) → the one to go on with."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if b"%" in scope.get("raw_path", b""):
            scope["path"] = head.path(scope["raw_path"])
        api = PATHS.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        serve = self._answer
        if api is None:
            if not _counts(scope):
                await self.rest(scope, receive, send)
                return
            api, serve = Api.MESSAGES, self.counting.serve
        reply = scope.get("extensions", {}).get(EXTENSION)
        if isinstance(reply, DirectReply):
            await _Exchange(self, api, scope, receive, reply).run(serve)
            return
        reply = PlainReply(receive, send, self.limits.write_buffer_bytes)
        await _Exchange(self, api, scope, receive, reply).run(serve)
        await reply.end()

    async def _answer(self, call: Call, reply: Reply) -> None:
        check_bounded(call.request.api, call.request.cost)
        await self.corridor.serve(call, reply)


def _counts(scope: Scope) -> bool:
    return (scope["type"], scope.get("method"), scope.get("path")) == ("http", "POST", COUNT_TOKENS)


class _Exchange:
    """One request on its way through the edge."""

    __slots__ = (
        "_api",
        "_bounds",
        "_call",
        "_edge",
        "_head",
        "_headers",
        "_held",
        "_is_passed",
        "_is_refused",
        "_receive",
        "_reply",
        "_request_id",
        "_timings",
        "_who",
    )

    def __init__(self, edge: Edge, api: Api, scope: Scope, receive: Receive, reply: DirectReply | PlainReply) -> None:
        self._edge, self._api, self._receive, self._reply = edge, api, receive, reply
        self._timings = Timings(edge.clock.monotonic, edge.clock.monotonic())
        self._head: list[tuple[bytes, bytes]] = scope["headers"]
        self._headers = dict(self._head)
        self._request_id = RequestId(head.request_id(self._headers, edge.ids()))
        self._call: Call | None = None
        self._bounds = edge.bounds()
        self._held: Held | None = None
        self._who: Principal | None = None
        self._is_passed = self._is_refused = False
        reply.decor = self._decor

    async def run(self, serve: Serve) -> None:
        """Answer the request, whatever happens."""
        try:
            if len(self._headers) < len(self._head):
                head.check_single(self._head)
            principal = self._who = self._edge.identity.authenticate(head.credential(self._headers))
            self._reply.prove()
            self._timings.mark(Stage.AUTH)
            request = self._request(*await self._read(principal))
            call = self._call = Call(request=request, principal=principal, timings=self._timings)
            if self._held is not None:
                call.on_admitted = self._held.release
            self._timings.mark(Stage.EDGE)
            await serve(call, self._reply)
        except PenstockError as error:
            self._refuse(error)
        except asyncio.CancelledError:
            self._refuse(Draining("this gateway was shut down before the answer was complete", retry_after_s=1.0))
        except Exception as error:  # noqa: BLE001  a bug of ours must not become a broken connection
            self._edge.observer.crashed(error, self._request_id)
            self._refuse(PenstockError())
        finally:
            self._give_back()

    def _give_back(self) -> None:
        """Give back what only a request that is being answered holds."""
        if self._held is not None:
            self._held.release()
        if self._is_passed and self._who is not None:
            now = self._edge.clock.monotonic()
            self._edge.looks.give_pass(self._who.tenant, now, was_of_use=not self._is_refused)

    async def _read(self, who: Principal) -> tuple[Parsed, str]:
        """Return what the body asks for; whoever is over its limits is told so as soon as that is known."""
        edge, length = self._edge, self._headers.get(b"content-length", b"")
        limit = edge.limits.body_bytes or self._bounds.body_bytes(self._api)
        if length and int(length) > limit:  # the HTTP parser lets only digits through
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise MalformedBody("the body must not be compressed")
        if len(length) >= _LONG or not length:  # five digits, or nobody knows
            await self._refuse_early(who)
        raw = await self._body(who, limit)
        if is_small(raw):
            if edge.looks.comes_first(who.key, edge.clock.monotonic()):
                await self._refuse_early(who, model_of(raw))
            return parse(self._api, raw, self._bounds), ""
        if model := model_of(raw):
            await self._refuse_early(who, model)
        parsed, digest = await edge.reader.read(who.tenant, self._api, raw, self._bounds)
        if not model:
            await self._refuse_early(who, parsed.model)
        return parsed, digest

    async def _refuse_early(self, who: Principal, model: str = "") -> None:
        """Ask the limits; who is over one may still be answered from a record, which costs nothing."""
        try:
            await self._edge.refuse_early(who, model)
        except PenstockError:
            key = head.idempotency_key(self._headers)
            if self._is_passed:
                return
            if not key or not await self._edge.is_recorded(who, key):
                raise
            if not self._edge.looks.take_pass(who.tenant, self._edge.clock.monotonic()):
                raise
            self._is_passed = True

    async def _body(self, who: Principal, limit: int) -> bytes:
        if isinstance(self._reply, DirectReply):
            whole = self._reply.whole_body(limit)
            if whole is not None:
                if len(whole) > INLINE_BYTES:
                    self._held = self._edge.intake.begin(who.tenant)
                    self._held.grow(len(whole))
                return whole
        self._held = held = self._edge.intake.begin(who.tenant)
        held.arrives()
        try:
            async with asyncio.timeout(self._edge.limits.body_timeout_s):
                body = await self._arriving_body(limit, held)
        except TimeoutError as error:
            raise RequestTimedOut("the body was not received in time") from error
        held.is_here()
        return body

    async def _arriving_body(self, limit: int, held: Held) -> bytes:
        receive = self._reply.guarded(self._receive) if isinstance(self._reply, DirectReply) else self._receive
        return await read_body(receive, limit, held.grow)

    def _request(self, parsed: Parsed, digest: str) -> InferenceRequest:
        headers = self._headers
        return InferenceRequest(
            id=self._request_id,
            api=self._api,
            model=parsed.model,
            body=parsed.body,
            stream=parsed.stream,
            include_usage=parsed.include_usage,
            cost=parsed.cost,
            arrived_at=self._timings.started_at,
            deadline_s=head.deadline_s(headers),
            traceparent=self._edge.trace(head.traceparent(headers)),
            idempotency_key=head.idempotency_key(headers),
            digest=digest,
        )

    def _decor(self) -> Headers:
        """Return what every reply carries; version and stages come from whoever starts the reply."""
        return [(b"x-request-id", self._request_id.encode())]

    def _told(self) -> Headers:
        """Return how far a refused request came: its version where it is known, the time of each stage."""
        stages = [f"{stage};dur={seconds * 1e3:.3f}" for stage, seconds in self._timings.seconds.items()]
        told = [(b"server-timing", ", ".join(stages).encode())] if stages else []
        if self._call is not None and self._call.version is not None:
            told.append((b"x-penstock-version", self._call.version.id.encode()))
        return told

    def _refuse(self, error: PenstockError) -> None:
        reply, self._is_refused = self._reply, True
        if self._who is not None and isinstance(error, OverLimit | OverBudget):
            self._edge.looks.refused(self._who.key, self._edge.clock.monotonic())
        if reply.gone or isinstance(error, ClientGone):
            reply.finish()
            return
        self._edge.observer.refused(error, self._request_id)
        if not reply.started:
            status, headers, body = response_of(error, self._request_id, self._api)
            reply.start(status, headers + self._told())
            reply.write(body)
            reply.finish()
        elif self._call is not None and self._call.request.stream:
            reply.write(in_band(error, self._request_id, self._api))
            reply.finish()
        else:
            reply.abort()
