"""One request over gRPC: its message, its answer's messages, refusals as statuses.

The message is read after the key was checked; until then flow control holds its bytes back.
"""

from functools import partial

from penstock.domain.errors import BodyTooLarge, InvalidField, MalformedBody, PenstockError
from penstock.domain.outcome import Stage
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.relay import Reply
from penstock.gateway.oip import catalogue
from penstock.gateway.oip.asked import packed, parsed
from penstock.gateway.oip.catalogue import Found
from penstock.gateway.oip.forms import STREAM, TEXT, Body, body_of
from penstock.gateway.oip.grpc import messages
from penstock.gateway.oip.grpc.arriving import Read, arrived
from penstock.gateway.oip.grpc.calls import RpcCaller
from penstock.gateway.oip.grpc.message_reader import received_by
from penstock.gateway.oip.grpc.replies import FINAL, Outbox, Said, TextReply, WholeReply
from penstock.gateway.oip.nouns import InferAnswer, InferRequest, Named, Parameter
from penstock.gateway.oip.reply import ITEMS, with_account
from penstock.gateway.oip.scalars import soonest, timeout_s
from penstock.gateway.openai import head
from penstock.gateway.openai.exchange import RequestExchange
from penstock.gateway.openai.parse import Parsed
from penstock.gateway.openai.reading import INLINE_BYTES
from penstock.gateway.openai.services import Services
from penstock.intake.types import Headers


class RpcExchange(RequestExchange):
    def __init__(self, edge: Services, headers: Headers, left_s: float | None) -> None:
        super().__init__(edge, Api.INFER, headers)
        self._left_s = left_s
        self._found: Found | None = None
        self._asked: InferRequest | None = None
        self._way_back: WholeReply | TextReply = WholeReply(self._translate)
        self.trailers: Headers = [(b"x-request-id", self._request_id.encode())]
        """What is said of the answer beside it, once it is over."""

    @property
    def _reply(self) -> Reply:
        return self._way_back

    def lost(self) -> None:
        self._way_back.lost()

    def _give_back(self) -> None:
        super()._give_back()
        self._way_back.part()

    def _deadline_s(self) -> float:
        asked = timeout_s(self._asked.parameters) if self._asked is not None else 0.0
        left = 0.0 if self._left_s is None else min(max(self._left_s, 0.001), head.MAX_DEADLINE_S)
        return soonest(super()._deadline_s(), asked, left)

    async def _read(self, who: Principal) -> tuple[Parsed, str]:
        edge = self._edge
        raw = await self._received(who)
        if len(raw) > INLINE_BYTES:
            await self._refuse_early(who)
        received = await received_by(edge.reader, who.tenant, raw)
        message = received.message
        found = self._found = catalogue.find(edge.table(), who, message.model_name, message.model_version)
        form = found.form
        self._api = form.api
        self._check_size(len(raw))
        if len(raw) > INLINE_BYTES or edge.looks.comes_first(who.key, edge.clock.monotonic()):
            await self._refuse_early(who, found.name, size=len(raw))
        asked = self._asked = received.request()
        body = self._streaming(body_of(form, asked, found.name))
        repeatable = b"idempotency-key" in self._headers
        if (made := await packed(form, asked, body, is_repeatable=repeatable)) is not None:
            self._tensors = made[1]
            return made[0], ""
        return await parsed(edge.reader, who, form, body, self._bounds)

    async def _received(self, who: Principal) -> bytes:
        self._timings.mark(Stage.EDGE)
        try:
            raw = await self._arrived(who)
        finally:
            self._timings.mark(Stage.UPLOAD)
        if raw is None:
            raise MalformedBody("the call ended without a message")
        self._check_size(len(raw))
        if len(raw) > INLINE_BYTES:
            self._held = self._edge.intake.begin(who.tenant)
            self._held.grow(len(raw))
        return raw

    async def _arrived(self, who: Principal) -> bytes | None:
        raise NotImplementedError

    def _check_size(self, size: int) -> None:
        limit = self._edge.limits.body_bytes or self._bounds.body_bytes(self._api)
        if size > limit:
            raise BodyTooLarge(f"the message is larger than {limit} bytes")

    def _streaming(self, body: Body) -> Body:
        if body.get(STREAM):
            raise InvalidField("ModelInfer does not stream: use ModelStreamInfer", param=STREAM)
        return body

    def _named(self) -> Named:
        found, asked = self._found, self._asked
        model, name = (found.asked if found is not None else ""), (asked.id if asked is not None else "")
        return Named(model=model, version=self._way_back.version, id=name)

    def _answer(self, raw: bytes) -> InferAnswer | None:
        assert self._found is not None  # noqa: S101  the request was read; tells mypy
        assert self._asked is not None  # noqa: S101
        try:
            answer = with_account(self._found.form.answer(self._asked, raw), self._progress)
        except PenstockError as error:
            self._refuse(error)
            return None
        self.trailers = [*self.trailers, *self._way_back.head, *_usage(answer)]
        return answer

    def _translate(self, raw: bytes) -> None:
        raise NotImplementedError


class UnaryExchange(RpcExchange):
    """``ModelInfer``: one message, or one error."""

    def __init__(self, edge: Services, caller: RpcCaller, read: Read, left_s: float | None) -> None:
        super().__init__(edge, caller.headers, left_s)
        self._caller, self._message = caller, read
        self.message: bytes | None = None
        self.error: PenstockError | None = None

    def _identified(self) -> Principal:
        who = self._caller.who
        return super()._identified() if who is None else self._edge.identity.asking(who)

    async def _arrived(self, who: Principal) -> bytes | None:
        within_s = self._edge.limits.body_timeout_s
        return await arrived(self._message, self._caller.client, within_s, partial(self._refuse_early, who))

    def _translate(self, raw: bytes) -> None:
        answer = self._answer(raw)
        if answer is not None:
            self.message = messages.written(answer, self._named())

    def _say(self, error: PenstockError) -> None:
        self.error = error
        self.trailers = [*self.trailers, *self._told()]

    @property
    def told(self) -> Headers:
        return self._told()

    @property
    def id(self) -> str:
        return self._request_id


class StreamedExchange(RpcExchange):
    """One request of ``ModelStreamInfer``: its messages and errors go into the call's outbox."""

    def __init__(self, edge: Services, headers: Headers, raw: bytes, left_s: float | None, outbox: Outbox) -> None:
        super().__init__(edge, headers, left_s)
        self._raw, self._outbox = raw, outbox

    async def _arrived(self, who: Principal) -> bytes | None:
        del who
        raw, self._raw = self._raw, b""
        return raw

    def _streaming(self, body: Body) -> Body:
        if self._api is not Api.COMPLETIONS or body.get(STREAM) in (False, 0):
            return {name: value for name, value in body.items() if name != STREAM}
        if isinstance(body["prompt"], list):
            raise InvalidField("a streamed request holds one text: send each of a batch by itself", param=TEXT)
        assert self._found is not None  # noqa: S101  found before the body was made; tells mypy
        asked_id = self._asked.id if self._asked is not None else ""
        buffer_bytes = self._edge.limits.write_buffer_bytes
        self._way_back = TextReply(self._outbox, self._found.asked, asked_id, buffer_bytes)
        return {**body, STREAM: True, "stream_options": {"include_usage": True}}

    def _translate(self, raw: bytes) -> None:
        answer = self._answer(raw)
        if answer is not None:
            final = InferAnswer(outputs=answer.outputs, parameters={**answer.parameters, FINAL: True})
            self._outbox.ready(Said(messages.streamed(final, self._named())))

    def ended(self) -> None:
        if isinstance(self._way_back, TextReply):
            told = InferAnswer(outputs=(), parameters=self._way_back.told)
            self.trailers = [*self.trailers, *self._way_back.head, *_usage(told)]

    def _say(self, error: PenstockError) -> None:
        parameters: dict[str, Parameter] = {FINAL: True, "code": error.code, "request_id": self._request_id}
        answer = InferAnswer(outputs=(), parameters=parameters)
        self._outbox.ready(Said(messages.streamed(answer, self._named(), error.message)))


def _usage(answer: InferAnswer) -> Headers:
    names = ("prompt_tokens", "output_tokens", ITEMS)
    counted = [(name, answer.parameters[name]) for name in names if name in answer.parameters]
    return [(f"x-penstock-{name.replace('_', '-')}".encode(), str(count).encode()) for name, count in counted]
