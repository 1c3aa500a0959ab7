"""The protocol's service: each call is an exchange, ended if the client disconnects.

A unary call reads its message like a stream, so that the key is checked first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError

from penstock import __version__
from penstock.domain.errors import BodyTooLarge, MalformedBody, PenstockError, UnknownModel
from penstock.domain.models.tensors import TensorSpec
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.oip import catalogue
from penstock.gateway.oip.grpc import status
from penstock.gateway.oip.grpc.arriving import arrived
from penstock.gateway.oip.grpc.calls import Context, RpcCaller, abort, headers_of, refuse
from penstock.gateway.oip.grpc.exchange import RpcExchange, StreamedExchange, UnaryExchange
from penstock.gateway.oip.grpc.messages import CLASSES, SERVICE, message
from penstock.gateway.oip.grpc.replies import Outbox
from penstock.gateway.oip.routes import EXTENSIONS, SERVER
from penstock.gateway.openai import head
from penstock.gateway.openai.services import Facts, Services
from penstock.intake.limits import QUESTION_BYTES
from penstock.intake.types import Headers

MOST_AT_ONCE = 32
"""Concurrent requests of one stream; further ones wait in its flow control."""
INFERENCE = frozenset({f"/{SERVICE}/ModelInfer", f"/{SERVICE}/ModelStreamInfer"})
"""Methods with handlers that get the ``RpcCaller`` and read messages themselves."""


class Handler(Protocol):
    def __call__(self, who: Principal, asked: Any) -> bytes: ...  # noqa: ANN401  a message of the pool


class OpenInference:
    def __init__(self, edge: Services, facts: Facts) -> None:
        self._edge, self._facts = edge, facts
        self._running: set[asyncio.Task[None]] = set()

    @property
    def handler(self) -> grpc.GenericRpcHandler:
        calls = {
            "ServerLive": self._plain(self._live, is_open=True),
            "ServerReady": self._plain(self._ready, is_open=True),
            "ServerMetadata": self._plain(self._server, is_open=True),
            "ModelReady": self._plain(self._model_ready),
            "ModelMetadata": self._plain(self._model),
            "RepositoryIndex": self._plain(self._index),
        }
        unary: dict[str, Any] = {name: grpc.unary_unary_rpc_method_handler(call(name)) for name, call in calls.items()}
        infer: dict[str, Any] = {
            "ModelInfer": grpc.stream_unary_rpc_method_handler(self._infer),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(self._stream_infer),
        }
        return grpc.method_handlers_generic_handler(SERVICE, {**unary, **infer})

    def cut_off(self) -> None:
        for task in self._running:
            task.cancel()

    # -- inference -------------------------------------------------------------------------

    async def _infer(self, caller: RpcCaller, context: Context) -> bytes:
        exchange = UnaryExchange(self._edge, caller, context.read, context.time_remaining())
        await self._watched(exchange, context)
        if exchange.error is not None or exchange.message is None:
            await abort(context, exchange.error or PenstockError(), exchange.id, exchange.told)
            raise AssertionError("an aborted call goes no further")
        context.set_trailing_metadata(status.metadata(exchange.trailers))
        return exchange.message

    async def _stream_infer(self, caller: RpcCaller, context: Context) -> None:
        try:
            identity = self._edge.identity
            known = caller.who or identity.recognise(head.credential(dict(caller.headers)))
            who = identity.asking(known)
            await _StreamCall(self, context, caller, partial(self._edge.refuse_early, who, "")).run()
        except PenstockError as error:
            await refuse(self._edge, context, error)

    @property
    def patience_s(self) -> float:
        """A stream's wait for its first request, as on an idle HTTP connection."""
        return self._edge.limits.keep_alive_s

    def exchange(self, headers: Headers, raw: bytes, context: Context, outbox: Outbox) -> StreamedExchange:
        return StreamedExchange(self._edge, headers, raw, context.time_remaining(), outbox)

    def begin(self, exchange: RpcExchange) -> "asyncio.Task[None]":
        """Serve in a separate task: a disconnect ends the request through its reply, not by cancellation."""
        task = asyncio.get_running_loop().create_task(exchange.run(self._edge.corridor.serve))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _watched(self, exchange: RpcExchange, context: Context) -> None:
        task, over = self.begin(exchange), asyncio.get_running_loop().create_future()
        task.add_done_callback(partial(_tell, over))
        try:
            await over
        except asyncio.CancelledError:
            leave(exchange, context)
            if not task.done():
                await asyncio.wait({task})
            raise

    # -- questions ---------------------------------------------------------------------------

    def _plain(self, answer: Handler, *, is_open: bool = False) -> Callable[[str], Callable[..., Awaitable[bytes]]]:
        """Serve calls other than inference; with ``is_open`` they need no key."""

        def make(name: str) -> Callable[..., Awaitable[bytes]]:
            kind = CLASSES[f"{name}Request"]

            async def call(raw: bytes, context: Context) -> bytes:
                try:
                    if len(raw) > QUESTION_BYTES:
                        raise BodyTooLarge(f"a {name}Request is at most {QUESTION_BYTES} bytes")
                    who = None if is_open else self._edge.identity.authenticate(_credential(context))
                    return answer(who, kind.FromString(raw))  # type: ignore[arg-type]  # open ones don't look
                except DecodeError:
                    error: PenstockError = MalformedBody(f"the message is no {name}Request")
                except PenstockError as refusal:
                    error = refusal
                await refuse(self._edge, context, error)
                raise AssertionError("an aborted call goes no further")

            return call

        return make

    def _live(self, who: Principal, asked: Any) -> bytes:  # noqa: ANN401
        del who, asked
        return message("ServerLiveResponse", live=True)

    def _ready(self, who: Principal, asked: Any) -> bytes:  # noqa: ANN401
        del who, asked
        is_ready = not self._facts.draining() and not self._facts.missing()
        return message("ServerReadyResponse", ready=is_ready)

    def _server(self, who: Principal, asked: Any) -> bytes:  # noqa: ANN401
        del who, asked
        return message("ServerMetadataResponse", name=SERVER, version=__version__, extensions=EXTENSIONS)

    def _model_ready(self, who: Principal, asked: Any) -> bytes:  # noqa: ANN401
        try:
            found = catalogue.find(self._edge.table(), who, asked.name, asked.version)
        except UnknownModel:  # an answer and no error, as Triton's: clients ask until a model comes
            return message("ModelReadyResponse", ready=False)
        return message("ModelReadyResponse", ready=catalogue.is_ready(found.version))

    def _model(self, who: Principal, asked: Any) -> bytes:  # noqa: ANN401
        told = catalogue.metadata(self._edge.table(), who, asked.name, asked.version)
        plain = {"name": told.name, "versions": told.versions, "platform": told.platform}
        tensors = {"inputs": _described(told.inputs), "outputs": _described(told.outputs)}
        return message("ModelMetadataResponse", **plain, **tensors)

    def _index(self, who: Principal, asked: Any) -> bytes:  # noqa: ANN401
        lines = catalogue.index(self._edge.table(), who, only_ready=asked.ready)
        return message("RepositoryIndexResponse", models=[_fields(line) for line in lines])


class _StreamCall:
    """Starts requests as they arrive; one writer sends messages. ``ask`` may refuse a large request while it still
    arrives.
    """

    def __init__(
        self, service: OpenInference, context: Context, caller: RpcCaller, ask: Callable[[], Awaitable[None]]
    ) -> None:
        self._service, self._context, self._caller, self._ask = service, context, caller, ask
        self._outbox = Outbox()
        self._running: dict[asyncio.Task[None], StreamedExchange] = {}
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self) -> None:
        taking = asyncio.get_running_loop().create_task(self._take())
        last: StreamedExchange | None = None
        client, task = self._caller.client, asyncio.current_task()
        try:
            while (piece := await self._outbox.next()) is not None:
                client.writes(task)
                await self._context.write(piece)
                client.wrote(task)
            last = await taking
        except asyncio.CancelledError:
            for exchange in self._running.values():
                leave(exchange, self._context)
            if self._running:
                await asyncio.wait(set(self._running))
            raise
        finally:
            taking.cancel()
        if last is not None:
            last.ended()
            self._context.set_trailing_metadata(status.metadata(last.trailers))

    async def _take(self) -> StreamedExchange | None:
        read, last, number = self._context.read, None, 0
        try:
            while True:
                await self._room.acquire()
                within_s = None if number else self._service.patience_s
                raw = await arrived(read, self._caller.client, within_s, self._ask)
                if raw is None:
                    break
                number += 1
                last = self._service.exchange(self._own(number), raw, self._context, self._outbox)
                task = self._service.begin(last)
                self._running[task] = last
                task.add_done_callback(self._over)
        finally:
            if self._running:
                await asyncio.wait(set(self._running))
            self._outbox.close()
        return last

    def _own(self, number: int) -> Headers:
        headers = self._caller.headers
        if number == 1:
            return headers
        key = b"idempotency-key"
        return [(name, b"%b-%d" % (value, number) if name == key else value) for name, value in headers]

    def _over(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        self._room.release()


def _tell(over: "asyncio.Future[None]", _: "asyncio.Task[None]") -> None:
    """``asyncio.shield`` would cost two more futures per call."""
    if not over.done():
        over.set_result(None)


def leave(exchange: RpcExchange, context: Context) -> None:
    """Unless the call's deadline is about to end it."""
    left = context.time_remaining()
    if left is None or left > 0:
        exchange.lost()
        return
    asyncio.get_running_loop().call_later(1.0, exchange.lost)


def _credential(context: Context) -> str:
    headers = headers_of(context)
    head.check_single(headers)
    return head.credential(dict(headers))


def _described(tensors: tuple[TensorSpec, ...]) -> list[dict[str, object]]:
    return [{"name": one.name, "datatype": one.datatype, "shape": one.shape} for one in tensors]


def _fields(line: catalogue.Indexed) -> dict[str, str]:
    return {"name": line.name, "version": line.version, "state": line.state, "reason": line.reason}
