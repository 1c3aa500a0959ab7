"""Bounds concurrent calls by tenant and address: neither a key nor an address takes them all.

A call counts from its metadata on, for its tenant with a valid key, else for its address. Every call reads its message
itself, since grpc would wait for the message first, without limit and before any check.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import grpc
import grpc.aio

from penstock.domain.errors import MalformedBody, OverLimit, Overloaded, PenstockError, RequestTimedOut
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.oip.grpc import status
from penstock.gateway.openai import head
from penstock.gateway.openai.services import Services
from penstock.gateway.records import Early
from penstock.intake.addresses import KNOWN_PARTS
from penstock.intake.share import SharedRoom
from penstock.intake.types import Headers
from penstock.lateness import timeout

RETRY_S = 1.0
STRANGERS_RATIO = 8
"""One call of so many is for those who show no key: probes, and programs that ask what there is."""
Context = Any
"""What grpc.aio gives its handlers; its own types are generic over messages."""
Handler = Any
"""Its description of a method."""


class RpcCaller(NamedTuple):
    """A call's metadata, and the principal of the valid key in them, if any."""

    headers: Headers
    who: Principal | None


class Calls(grpc.aio.ServerInterceptor):
    """The calls of one server."""

    def __init__(self, edge: Services, inference: frozenset[str]) -> None:
        """The limit is that of HTTP connections. Handlers of the methods ``inference`` get the ``Caller`` and read
        messages themselves.
        """
        self._inference = inference
        self._edge = edge
        most = edge.limits.connections
        strangers = max(2, most // STRANGERS_RATIO)
        self._known = SharedRoom(most - strangers, parts=KNOWN_PARTS)
        self._strangers = SharedRoom(strangers)
        self._bounded: dict[str, Handler] = {}

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Handler]], handler_call_details: grpc.HandlerCallDetails
    ) -> Handler:
        """Return the method's handler with bounds; None for an unknown method."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is not None and method not in self._bounded:
            self._bounded[method] = self._made(handler, is_inference=method in self._inference)
        return self._bounded.get(method)

    def _made(self, handler: Handler, *, is_inference: bool) -> Handler:
        serve = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        async def call(messages: object, context: Context) -> object:
            caller = self._caller(context)
            room, who = self._place_of(caller, context)
            if not room.take(who, 1):
                await refuse(self._edge, context, _refusal(room, who))
            try:
                if is_inference:
                    return await serve(caller, context)
                asked = messages if handler.request_streaming else await self._message(context)
                return await _answered(serve(asked, context), context)
            finally:
                room.give(who, 1)

        streaming, whole = grpc.stream_stream_rpc_method_handler, grpc.stream_unary_rpc_method_handler
        make = streaming if handler.response_streaming else whole
        return make(call, handler.request_deserializer, handler.response_serializer)

    def _caller(self, context: Context) -> RpcCaller:
        headers = headers_of(context)
        try:
            return RpcCaller(headers, self._edge.identity.recognise(head.credential(dict(headers))))
        except PenstockError:
            return RpcCaller(headers, None)

    def _place_of(self, caller: RpcCaller, context: Context) -> tuple[SharedRoom, str]:
        """Return the room and the name that the call counts for."""
        if caller.who is not None:
            return self._known, caller.who.tenant
        return self._strangers, context.peer().rpartition(":")[0]

    async def _message(self, context: Context) -> object:
        """Return a plain call's message, bounded like an HTTP head."""
        error: PenstockError = MalformedBody("the call ended without a message")
        try:
            async with timeout(self._edge.limits.header_timeout_s):
                message = await context.read()
            if message is not grpc.aio.EOF:
                return message
        except TimeoutError:
            error = RequestTimedOut("no message was received in time")
        await refuse(self._edge, context, error)
        raise AssertionError("an aborted call goes no further")


async def _answered(answer: Any, context: Context) -> object:  # noqa: ANN401  a message, or several
    if not isinstance(answer, AsyncIterator):
        return await answer
    async for message in answer:
        await context.write(message)
    return None


def _refusal(room: SharedRoom, who: str) -> PenstockError:
    if 2 * room.held(who) >= room.used:
        return OverLimit("too many calls at a time to this gateway", retry_after_s=RETRY_S, reason="tenant_calls")
    return Overloaded("this gateway is in too many calls", retry_after_s=RETRY_S)


def headers_of(context: Context) -> Headers:
    found = context.invocation_metadata() or ()
    return [(name.encode(), value.encode("latin-1") if isinstance(value, str) else value) for name, value in found]


async def refuse(edge: Services, context: Context, error: PenstockError) -> None:
    """Count, log and record the refusal of a call, and end the call."""
    request_id = RequestId(f"req-{edge.ids()}")
    claim = head.claim(dict(headers_of(context)), edge.identity.claimed)
    edge.observer.refused(error, request_id, claim)
    edge.keep_early(error, Early(request_id, claim, "grpc"))
    await abort(context, error, request_id, [])


async def abort(context: Context, error: PenstockError, request_id: str, told: Headers) -> None:
    """End a call with an error; raises grpc's abort exception."""
    trailers = status.trailers_of(error, RequestId(request_id), told)
    await context.abort(status.code_of(error), error.message, trailers)
