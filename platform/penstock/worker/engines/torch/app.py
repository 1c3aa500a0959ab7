"""HTTP side of the torch engine, behind the gate: OpenAI embeddings, vLLM's classify, Open Inference Protocol tensors.

Plain ASGI. It parses a request's body into items, and encodes their outputs; a client that leaves cancels its items.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from penstock.domain.errors import (
    BadRequest,
    DeadlineExceeded,
    EngineError,
    Evicted,
    ExceedsEngine,
    MalformedBody,
    PenstockError,
    Rejected,
)
from penstock.domain.models.model import HandlerSettings
from penstock.domain.models.tensors import HEAD_LENGTH
from penstock.domain.serving.engine import HANDLER_FAILED
from penstock.domain.serving.request import Api
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.batching.faults import OutOfMemory
from penstock.worker.engines.torch import bodies, infer
from penstock.worker.engines.torch.declared import Undeclared, check_example
from penstock.worker.engines.torch.handler import Given
from penstock.worker.engines.torch.places import log, place_of
from penstock.worker.engines.torch.service import Answered, Service
from penstock.worker.gate_config import TICKET

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Reply = tuple[int, bytes, tuple[tuple[bytes, bytes], ...]]
_JSON = (b"content-type", b"application/json")
_BINARY = (b"content-type", b"application/octet-stream")
_REFUSED = b"x-penstock-refused"
_HEAD_LENGTH = HEAD_LENGTH.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    version: str
    settings: HandlerSettings
    labels: tuple[str, ...] = ()


class App:
    def __init__(self, service: Service, served: Served) -> None:
        self._service, self._served = service, served
        self._apis: dict[str, Callable[[bytes, Message], Awaitable[Reply]]] = {
            Api.EMBEDDINGS: self._embeddings,
            Api.CLASSIFY: self._classify,
            Api.INFER: self._infer,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        api = self._apis.get(scope["path"])
        if api is not None:
            await self._unless_gone(partial(self._said, api, scope), receive, send)
            return
        if scope["path"] == "/health":
            reply: Reply = 200, b"", ()
        elif scope["path"] == "/metrics":
            reply = 200, self._service.exposition().encode(), ((b"content-type", b"text/plain; version=0.0.4"),)
        else:
            reply = _failed(404, BadRequest("There is nothing at this path."))
        await _answer(send, reply)

    async def _unless_gone(self, work: Callable[[bytes], Awaitable[Reply]], receive: Receive, send: Send) -> None:
        body = await _body(receive)
        if body is None:
            return
        working, gone = asyncio.ensure_future(work(body)), asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(lambda _: working.cancel())
        try:
            await _answer(send, await working)
        except asyncio.CancelledError:
            if not gone.done():
                raise
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _said(self, api: Callable[[bytes, Message], Awaitable[Reply]], scope: Message, body: bytes) -> Reply:
        try:
            return await api(body, scope)
        except ExceedsEngine as error:
            return _failed(400, error, (_REFUSED, b"too_large"))
        except BadRequest as error:
            return _failed(400, error)
        except (Evicted, Rejected) as error:
            why = b"draining" if isinstance(error, Rejected) else b"late"
            return _failed(503, error, (_REFUSED, why))
        except Exception as error:  # noqa: BLE001  whatever a handler raises; a server would log its words
            return _fault(error)

    async def _embeddings(self, raw: bytes, scope: Message) -> Reply:
        body = bodies.read(raw)
        form = bodies.form_of(body)
        answered = await self._answered(body, scope)
        vectors = [form(bodies.numbers(row, self._served.settings)) for row in answered.rows]
        answer = bodies.embeddings(self._served.version, vectors, answered.tokens)
        return 200, answer, (_JSON,)

    async def _classify(self, raw: bytes, scope: Message) -> Reply:
        answered = await self._answered(bodies.read(raw), scope)
        scores = [bodies.numbers(row, self._served.settings) for row in answered.rows]
        answer = bodies.classes(self._served.version, scores, self._served.labels, answered.tokens)
        return 200, answer, (_JSON,)

    async def _infer(self, raw: bytes, scope: Message) -> Reply:
        length = next((value for name, value in scope["headers"] if name == _HEAD_LENGTH), None)
        asked = infer.read(raw, len(raw) if length is None else _whole(length), self._served.settings)
        answered = await self._service.answer(asked.items, _ticket(scope))
        given = [one.name for one in self._served.settings.outputs if one.name in answered.rows[0]]
        form = infer.Form(
            outputs=asked.outputs or given,
            classes=asked.classes,
            labels=self._served.labels,
            finite=self._served.settings.outputs[0].name,
        )
        write = partial(infer.write, self._served.version, form, answered.rows)
        body, head = await asyncio.to_thread(write) if asked.classes else write()
        return 200, body, (_BINARY, (_HEAD_LENGTH, b"%d" % head))

    async def _answered(self, body: bodies.Body, scope: Message) -> Answered:
        ticket = _ticket(scope)
        answered = await self._service.answer(self._given(body, scope), ticket)
        if ticket.tenant == PLATFORM:
            for row in answered.rows:
                check_example(row, self._served.settings)
        return answered

    def _given(self, body: bodies.Body, scope: Message) -> Sequence[Given]:
        """The handler's example if the model can't take a probe's token ids."""
        if body.is_example:
            return self._service.examples(body.examples)
        given = bodies.items(body)
        has_no_tokens = self._served.settings.item_tokens > 0 and isinstance(given[0], list)
        return self._service.examples(len(given)) if has_no_tokens and _ticket(scope).tenant == PLATFORM else given


def _fault(error: Exception) -> Reply:
    if isinstance(error, DeadlineExceeded):  # no refusal of the gate's: something was computed
        return _failed(504, error)
    told, cause = (error, error.__cause__) if isinstance(error, PenstockError) else (EngineError(), error)
    if isinstance(error, Undeclared):
        log("the model failed: %s", error.message)
    elif cause is not None:
        log("the model failed: %s", place_of(cause))
    is_handlers = isinstance(error, Undeclared) or not isinstance(cause, OutOfMemory | None)
    return _failed(500, told, reason=HANDLER_FAILED if is_handlers else None)


def _whole(text: bytes) -> int:
    if not text.isdigit() or len(text) > 9:  # noqa: PLR2004  more than any body
        raise MalformedBody("Inference-Header-Content-Length must be a number of bytes")
    return int(text)


def _ticket(scope: Message) -> Ticket:
    return cast("Ticket", scope[TICKET])


def _failed(status: int, error: PenstockError, *headers: tuple[bytes, bytes], reason: str | None = None) -> Reply:
    kind = "BadRequestError" if status < 500 else "InternalServerError"  # noqa: PLR2004
    told = {"message": error.message, "type": kind, "param": error.param, "code": status}
    if reason or error.reason:
        told["reason"] = reason or error.reason
    return status, msgspec.json.encode({"error": told}), (_JSON, *headers)


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, reply: Reply) -> None:
    status, body, headers = reply
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})
