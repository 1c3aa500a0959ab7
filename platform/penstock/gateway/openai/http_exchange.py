"""One request over HTTP/1.1: reads the body within its bounds, and sends refusals with a status."""

from penstock.domain.errors import BodyTooLarge, CompressedBody, PenstockError, RequestTimedOut
from penstock.domain.outcome import Stage
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.rate_limits import anthropics
from penstock.gateway.calls.relay import Reply
from penstock.gateway.listener.errors import in_band, response_of
from penstock.gateway.openai import head
from penstock.gateway.openai.exchange import RequestExchange
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.openai.reading import INLINE_BYTES, is_small, model_of
from penstock.gateway.openai.services import Services
from penstock.gateway.openai.verdicts import COUNTED
from penstock.intake.direct import DirectReply
from penstock.intake.held import HeldBytes
from penstock.intake.plain import PlainReply, read_body
from penstock.intake.types import Headers, Receive, Scope
from penstock.lateness.awake import timeout

_LONG = len(str(INLINE_BYTES))
"""Digits of a content length too large for the event loop."""
HttpReply = DirectReply | PlainReply


class HttpExchange(RequestExchange):
    def __init__(self, edge: Services, api: Api, scope: Scope, receive: Receive, reply: HttpReply) -> None:
        super().__init__(edge, api, scope["headers"])
        self._receive, self._way_back = receive, reply
        self._listeners, reply.decor = reply.decor, self._decor

    @property
    def _reply(self) -> Reply:
        return self._way_back

    @property
    def _speaks(self) -> Api:
        return self._api

    def _known(self, who: Principal) -> None:
        del who
        self._way_back.prove()

    async def _read(self, who: Principal) -> tuple[Parsed, str]:
        """A caller over its limits is refused as soon as that is known."""
        edge, length = self._edge, self._headers.get(b"content-length", b"")
        limit = edge.limits.body_bytes or self._bounds.body_bytes(self._api)
        if length and int(length) > limit:  # the HTTP parser lets only digits through
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise CompressedBody
        if len(length) >= _LONG or not length:  # five digits, or nobody knows
            await self._refuse_early(who, size=int(length or 0))
        raw = await self._body(who, limit)
        if is_small(raw):
            if edge.looks.comes_first(who.key, edge.clock.monotonic()):
                await self._refuse_early(who, self._model_of(raw), size=len(raw))
            return await self._parsed(who, raw, is_small=True)
        model = self._model_of(raw)
        if model:
            await self._refuse_early(who, model, size=len(raw))
        parsed = await self._parsed(who, raw, is_small=False)
        if not model:
            await self._refuse_early(who, parsed[0].model, size=len(raw))
        return parsed

    def _model_of(self, raw: bytes) -> str:
        return model_of(raw)

    async def _parsed(self, who: Principal, raw: bytes, *, is_small: bool) -> tuple[Parsed, str]:
        if is_small:
            return parse(self._api, raw, self._bounds), ""
        return await self._edge.reader.read(who.tenant, self._api, raw, self._bounds)

    async def _body(self, who: Principal, limit: int) -> bytes:
        if isinstance(self._way_back, DirectReply):
            whole = self._way_back.whole_body(limit)
            if whole is not None:
                if len(whole) > INLINE_BYTES:
                    self._held = self._edge.intake.begin(who.tenant)
                    self._held.grow(len(whole))
                return whole
        self._held = held = self._edge.intake.begin(who.tenant)
        held.arrives()
        self._timings.mark(Stage.EDGE)
        try:
            async with timeout(self._edge.limits.body_timeout_s):
                body = await self._arriving_body(limit, held)
        except TimeoutError as error:
            raise RequestTimedOut("the body was not received in time") from error
        finally:
            self._timings.mark(Stage.UPLOAD)
        held.is_here()
        return body

    async def _arriving_body(self, limit: int, held: HeldBytes) -> bytes:
        receive = self._way_back.guarded(self._receive) if isinstance(self._way_back, DirectReply) else self._receive
        return await read_body(receive, limit, held.grow)

    def _decor(self) -> Headers:
        decor = [(b"x-request-id", self._request_id.encode()), *self._listeners()]
        if self._speaks is Api.MESSAGES:
            decor.append((head.ANTHROPIC_ID, self._request_id.encode()))
        if ignored := self._without_effect():
            decor.append((b"x-penstock-ignored", ", ".join(ignored).encode()))
        return decor

    def _say(self, error: PenstockError) -> None:
        reply = self._way_back
        if not reply.started:
            status, headers, body = response_of(error, self._request_id, self._speaks)
            if self._speaks is Api.MESSAGES:
                headers = [*headers, *anthropics(headers, self._edge.clock.now())]
            reply.start(status, headers + self._told())
            reply.write(body)
            reply.finish()
        elif self._progress is not None and self._progress.call.request.stream:
            reply.write(in_band(error, self._request_id, self._speaks))
            reply.finish()
        else:
            reply.abort()


class CountExchange(HttpExchange):
    """Fields that a token count does not document are told."""

    def _request(self, parsed: Parsed, digest: str) -> InferenceRequest:
        request = super()._request(parsed, digest)
        self._ignored += tuple(sorted(parsed.body.keys() - COUNTED[self._api] - {*self._ignored}))
        return request
