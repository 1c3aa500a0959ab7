"""``POST /v2/models/{model}[/versions/{version}]/infer``: one inference over HTTP/1.1.

The kind of the model decides which of its APIs serves the request.
"""

import re
from functools import partial

from penstock.domain.errors import InvalidField, PenstockError
from penstock.domain.models.tensors import HEAD_LENGTH
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.relay import Reply
from penstock.gateway.oip import catalogue, json_answers
from penstock.gateway.oip.asked import asked_by, packed, parsed
from penstock.gateway.oip.catalogue import Found
from penstock.gateway.oip.forms import STREAM, body_of
from penstock.gateway.oip.nouns import InferRequest, Named
from penstock.gateway.oip.reply import TranslatedReply, with_account
from penstock.gateway.oip.scalars import soonest, timeout_s
from penstock.gateway.openai.http_exchange import HttpExchange, HttpReply
from penstock.gateway.openai.parse import Parsed
from penstock.gateway.openai.services import Serve, Services
from penstock.intake.types import Receive, Scope

_PATH = re.compile(r"/v2/models/([^/]{1,768})(?:/versions/([^/]{1,768}))?/infer")
_HEAD_LENGTH = HEAD_LENGTH.encode()
_MAX_DIGITS = 10


def target(path: str) -> tuple[str, str] | None:
    found = _PATH.fullmatch(path)
    return (found[1], found[2] or "") if found else None


class InferExchange(HttpExchange):
    def __init__(
        self, edge: Services, where: tuple[str, str], scope: Scope, receive: Receive, reply: HttpReply
    ) -> None:
        super().__init__(edge, Api.INFER, scope, receive, reply)
        self._where = where
        self._found: Found | None = None
        self._asked: InferRequest | None = None
        self._translated: TranslatedReply | None = None

    @property
    def _reply(self) -> Reply:
        return self._translated or self._way_back

    @property
    def _speaks(self) -> Api:
        return Api.INFER

    async def run(self, serve: Serve) -> None:
        await super().run(serve)
        if self._translated is not None:
            await self._translated.complete()

    async def _read(self, who: Principal) -> tuple[Parsed, str]:
        self._found = catalogue.find(self._edge.table(), who, *self._where)
        self._api = self._found.form.api
        return await super()._read(who)

    def _model_of(self, raw: bytes) -> str:
        del raw
        return self._found.name if self._found is not None else ""

    async def _parsed(self, who: Principal, raw: bytes, *, is_small: bool) -> tuple[Parsed, str]:
        del is_small  # the reader looks at the body that it gets
        found = self._found
        assert found is not None  # noqa: S101  found before the body was read; tells mypy
        asked = self._asked = await asked_by(self._edge.reader, who.tenant, raw, self._head_length())
        if asked.model not in ("", found.asked):
            raise InvalidField("model_name differs from the model in the path: leave it out", param="model_name")
        body = body_of(found.form, asked, found.name)
        if body.get(STREAM):
            raise InvalidField("REST does not stream: use ModelStreamInfer (gRPC) or /v1", param=STREAM)
        self._translated = TranslatedReply(self._way_back, partial(self._translate, found, asked), self._refuse)
        repeatable = b"idempotency-key" in self._headers
        if (made := await packed(found.form, asked, body, is_repeatable=repeatable)) is not None:
            self._tensors = made[1]
            return made[0], ""
        return await parsed(self._edge.reader, who, found.form, body, self._bounds)

    def _deadline_s(self) -> float:
        return soonest(super()._deadline_s(), timeout_s(self._asked.parameters) if self._asked is not None else 0.0)

    def _head_length(self) -> int | None:
        given = self._headers.get(_HEAD_LENGTH)
        if given is None:
            return None
        if not given.isdigit() or len(given) > _MAX_DIGITS:
            says = f"{HEAD_LENGTH} must be a whole number of bytes"
            raise InvalidField(says, param=HEAD_LENGTH)
        return int(given)

    def _translate(self, found: Found, asked: InferRequest, raw: bytes, version: str) -> json_answers.Written:
        named = Named(model=found.asked, version=catalogue.digest_of(version), id=asked.id)
        answer = with_account(found.form.answer(asked, raw), self._progress)
        return json_answers.written(answer, asked, named)

    def _say(self, error: PenstockError) -> None:
        self._translated = None
        super()._say(error)
