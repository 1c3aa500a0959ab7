"""Stored turns before a request's input: the joined request is read, counted and bounded like any other."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from penstock.domain.errors import BadRequest, InvalidField
from penstock.domain.jobs.errors import PayloadGone, UnknownPrevious
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred import response_bodies, turns
from penstock.gateway.deferred.stored_responses import Found, StoredResponses
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.parse import BACKGROUND, PREVIOUS, STORE
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.openai.services import Corridor

_ITEM = re.compile(r"input\[(\d+)\]")


def stripped(request: InferenceRequest) -> InferenceRequest:
    body = {name: value for name, value in request.body.items() if name not in (STORE, BACKGROUND, PREVIOUS)}
    return replace(request, body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurns:
    stored: StoredResponses
    reader: BodyReader
    bounds: Callable[[Principal], BodyBounds]

    async def joined(self, call: Call) -> InferenceRequest:
        """With the whole conversation as input. Raises ``BadRequest``."""
        previous, request = call.request.body.get(PREVIOUS), stripped(call.request)
        if previous is None:
            return request
        found = await self.stored.find(call.principal.tenant, str(previous))
        if found is None:
            raise UnknownPrevious(param=PREVIOUS)
        try:
            before = await self._turns(found)
        except PayloadGone as error:
            raise UnknownPrevious(param=PREVIOUS) from error
        whole = msgspec.Raw(turns.joined(before, turns.context_of(request.body)))
        raw = response_bodies.encoded({**request.body, "input": whole})
        try:
            return await self._read(request, call.principal, raw)
        except BadRequest as error:
            raise _own(error, before) from error

    async def _turns(self, found: Found) -> bytes:
        if not found.is_over:
            raise InvalidField("that response has not ended: wait for it, or cancel it", param=PREVIOUS)
        body = await self.stored.body(found)
        if not response_bodies.is_answer(body):
            raise InvalidField("that response failed or was cancelled: continue an earlier one", param=PREVIOUS)
        return turns.joined(await self.stored.context(found), turns.replayed(body))

    async def _read(self, request: InferenceRequest, who: Principal, raw: bytes) -> InferenceRequest:
        bounds = self.bounds(who)
        if len(raw) > (most := bounds.body_bytes(Api.RESPONSES)):
            raise InvalidField(f"with the turns before it the request is larger than {most} bytes", param=PREVIOUS)
        parsed, digest = await self.reader.read(who.tenant, Api.RESPONSES, raw, bounds)
        return replace(request, body=parsed.body, cost=parsed.cost, digest=digest)


def _own(error: BadRequest, before: bytes) -> BadRequest:
    """Items are numbered as the caller did; a stored one's refusal names the response before."""
    found = _ITEM.match(error.param or "")
    if found is None:
        return error
    number = int(found[1]) - turns.count(before)
    rest = (error.param or "")[found.end() :]
    return type(error)(error.message, param=PREVIOUS if number < 0 else f"input[{number}]{rest}", reason=error.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCounts:
    """Token counts of requests that continue a stored response."""

    corridor: Corridor
    turns: StoredTurns

    async def serve(self, progress: Progress, reply: Reply) -> None:
        if progress.call.request.api is Api.RESPONSES:
            progress.call = replace(progress.call, request=await self.turns.joined(progress.call))
        await self.corridor.serve(progress, reply)
