"""Bounds concurrent calls by tenant and by address: no key and no address can use them all.

A call counts from its metadata on: for its tenant if the key is valid, else for its address. Every call reads its
message itself: grpc would wait for it without a limit, and before any check.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from penstock.domain.errors import MalformedBody, OverLimit, Overloaded, PenstockError
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.oip.grpc import status
from penstock.gateway.oip.grpc.arriving import arrived
from penstock.gateway.openai import head
from penstock.gateway.openai.services import Services
from penstock.gateway.records.making import Early
from penstock.intake.addresses import KNOWN_PARTS
from penstock.intake.relay import Client, Relay
from penstock.intake.share import SharedRoom
from penstock.intake.types import Headers

RETRY_S = 1.0
STRANGERS_RATIO = 8
"""One of this many calls is for callers without a key: probes, and programs that list models."""
Context = Any
"""grpc.aio's context for handlers; its own types are generic over messages."""
Decode = Callable[[bytes], object]
Handler = Any
"""grpc's description of a method."""


class RpcCaller(NamedTuple):
    headers: Headers
    who: Principal | None
    client: Client


class Calls(grpc.GenericRpcHandler):
    """Handlers of the methods ``inference`` get the ``RpcCaller`` and read messages themselves. Handlers are added here
    and not to the server: an interceptor would cost several coroutines for each call.
    """

    def __init__(self, edge: Services, inference: frozenset[str], relay: Relay) -> None:
        self._inference, self._relay = inference, relay
        self._edge = edge
        most = edge.limits.connections
        strangers = max(2, most // STRANGERS_RATIO)
        self._known = SharedRoom(most - strangers, parts=KNOWN_PARTS)
        self._strangers = SharedRoom(strangers)
        self._handlers: list[grpc.GenericRpcHandler] = []
        self._bounded: dict[str, Handler] = {}

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        self._handlers.extend(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Do nothing: generated code names each handler twice."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        method = handler_call_details.method
        if method not in self._bounded:
            found = (one.service(handler_call_details) for one in self._handlers)
            handler = next((one for one in found if one is not None), None)
            if handler is None:
                return None
            self._bounded[method] = self._made(handler, is_inference=method in self._inference)
        return self._bounded[method]

    def _made(self, handler: Handler, *, is_inference: bool) -> Handler:
        serve = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        async def call(messages: AsyncIterator[bytes], context: Context) -> object:
            client = self._relay.client(context.peer())
            if client is None:  # it has just gone
                raise asyncio.CancelledError
            caller = self._caller(context, client)
            room, who = self._place_of(caller)
            if not room.take(who, 1):
                await refuse(self._edge, context, _refusal(room, who))
            task = asyncio.current_task()
            task.add_done_callback(partial(_over, room, who, client))  # type: ignore[union-attr]  # this is one
            if is_inference:
                answer = await serve(caller, context)
            else:
                decode = handler.request_deserializer or bytes
                whole = not handler.request_streaming
                asked = await self._message(caller, context, decode) if whole else self._each(messages, context, decode)
                answer = await _answered(serve(asked, context), context, client)
            client.writes(task)  # what is returned is written by the library, until the task ends
            return answer

        streaming, single = grpc.stream_stream_rpc_method_handler, grpc.stream_unary_rpc_method_handler
        make = streaming if handler.response_streaming else single
        return make(call, None, handler.response_serializer)  # the library would answer UNKNOWN for damaged messages

    def _caller(self, context: Context, client: Client) -> RpcCaller:
        headers = headers_of(context)
        try:
            who = self._edge.identity.recognise(head.credential(dict(headers)))
        except PenstockError:
            return RpcCaller(headers, None, client)
        client.prove(who.tenant)
        return RpcCaller(headers, who, client)

    def _place_of(self, caller: RpcCaller) -> tuple[SharedRoom, str]:
        if caller.who is not None:
            return self._known, caller.who.tenant
        return self._strangers, caller.client.address

    async def _message(self, caller: RpcCaller, context: Context, decode: Decode) -> object:
        """Read the message of a call other than inference, bounded like an HTTP head."""
        error: PenstockError = MalformedBody("the call ended without a message")
        try:
            message = await arrived(context.read, caller.client, self._edge.limits.header_timeout_s)
            if message is not None:
                return await self._decoded(message, context, decode)
        except PenstockError as refusal:
            error = refusal
        await refuse(self._edge, context, error)
        raise AssertionError("an aborted call goes no further")

    async def _each(self, messages: AsyncIterator[bytes], context: Context, decode: Decode) -> AsyncIterator[object]:
        async for message in messages:
            yield await self._decoded(message, context, decode)

    async def _decoded(self, message: bytes, context: Context, decode: Decode) -> object:
        try:
            return decode(message)
        except DecodeError:
            await refuse(self._edge, context, MalformedBody("the message is not of the type that the method takes"))
        raise AssertionError("an aborted call goes no further")


async def _answered(answer: Any, context: Context, client: Client) -> object:  # noqa: ANN401  a message, or several
    if not isinstance(answer, AsyncIterator):
        return await answer
    task = asyncio.current_task()
    async for message in answer:
        client.writes(task)
        await context.write(message)
        client.wrote(task)
    return None


def _over(room: SharedRoom, who: str, client: Client, call: "asyncio.Task[Any]") -> None:
    client.wrote(call)
    room.give(who, 1)


def _refusal(room: SharedRoom, who: str) -> PenstockError:
    if 2 * room.held(who) >= room.used:
        return OverLimit("too many calls at a time to this gateway", retry_after_s=RETRY_S, reason="tenant_calls")
    return Overloaded("this gateway is in too many calls", retry_after_s=RETRY_S)


def headers_of(context: Context) -> Headers:
    found = context.invocation_metadata() or ()
    return [(name.encode(), value.encode("latin-1") if isinstance(value, str) else value) for name, value in found]


async def refuse(edge: Services, context: Context, error: PenstockError) -> None:
    request_id = RequestId(f"req-{edge.ids()}")
    claim = head.claim(dict(headers_of(context)), edge.identity.claimed)
    edge.observer.refused(error, request_id, claim)
    edge.keep_early(error, Early(request_id, claim, "grpc"))
    await abort(context, error, request_id, [])


async def abort(context: Context, error: PenstockError, request_id: str, told: Headers) -> None:
    trailers = status.trailers_of(error, RequestId(request_id), told)
    await context.abort(status.code_of(error), error.message, trailers)
