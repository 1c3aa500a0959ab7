"""``POST /v1/responses`` with the fields of stored responses: in the background, kept, or refused."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.domain.errors import InvalidField, UnknownObject, UnsupportedField
from penstock.domain.jobs.stored_response import ResponseId
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.deferred import response_stream
from penstock.gateway.deferred.jobs import LEAST_DEADLINE_S
from penstock.gateway.deferred.response_stream import ResponseStream, StreamSlots
from penstock.gateway.deferred.stored_responses import StoredResponses
from penstock.gateway.deferred.stored_turns import StoredTurns, stripped
from penstock.gateway.openai.head import DEADLINE
from penstock.gateway.openai.idempotent import fingerprint
from penstock.gateway.openai.parse import BACKGROUND, PREVIOUS, STORE
from penstock.gateway.openai.services import Corridor

_OF_THE_ANSWER = ("stream", "stream_options")
"""Fields that say how an answer comes: they are the background's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundRequest:
    body: Mapping[str, object]
    previous: str | None
    keeps_events: bool
    deadline_s: float = 0.0
    idempotency_key: str = ""
    fingerprint: str = ""


class Background(Protocol):
    async def submit(self, who: Principal, wish: BackgroundRequest) -> ResponseId:
        """Under an idempotency key that was used before, return that response. Raises the ``BadRequest`` that the API
        itself would answer with, and ``OverLimit`` if too much is queued.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCorridor:
    """``kept`` answers requests that are not for the background."""

    kept: Corridor
    background: Background
    turns: StoredTurns
    stored: StoredResponses
    slots: StreamSlots
    stall_s: float

    async def serve(self, progress: Progress, reply: Reply) -> None:
        if progress.call.request.body.get(BACKGROUND) is True:
            await self._queued(progress, reply)
        else:
            await self.kept.serve(progress, reply)

    async def _queued(self, progress: Progress, reply: Reply) -> None:
        call, asked = progress.call, progress.call.request
        if asked.body.get(STORE) is False:
            raise InvalidField("a background response is stored: leave store out, or wait for the answer", param=STORE)
        if 0.0 < asked.deadline_s < LEAST_DEADLINE_S:
            least_ms = 1000 * LEAST_DEADLINE_S
            says = f"a background response has {least_ms:.0f} ms at least: give it more, or wait for the answer"
            raise InvalidField(says, param=DEADLINE)
        request = await self.turns.joined(call)
        previous = asked.body.get(PREVIOUS)
        wish = BackgroundRequest(
            body={name: value for name, value in request.body.items() if name not in _OF_THE_ANSWER},
            previous=None if previous is None else str(previous),
            keeps_events=asked.stream,
            deadline_s=asked.deadline_s,
            idempotency_key=asked.idempotency_key,
            fingerprint=fingerprint(asked),
        )
        async with self.slots.following(call.principal) if asked.stream else nullcontext():
            response = await self.background.submit(call.principal, wish)
            call.on_admitted()
            await self._answer(call.principal, response, reply, is_stream=asked.stream)

    async def _answer(self, who: Principal, response: ResponseId, reply: Reply, *, is_stream: bool) -> None:
        found = await self.stored.find(who.tenant, response)
        if found is None:
            raise UnknownObject
        if is_stream:
            events = ResponseStream(stored=self.stored).events(found, await self.stored.beginning(found))
            await response_stream.sent(events, reply, self.stall_s)
            return
        body = await self.stored.body(found)
        reply.start(200, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))])
        reply.write(body)
        reply.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstoredCorridor:
    corridor: Corridor

    async def serve(self, progress: Progress, reply: Reply) -> None:
        body = progress.call.request.body
        for name in (BACKGROUND, PREVIOUS, STORE):
            if body.get(name):
                raise UnsupportedField(f"{name} needs stored responses, which are off here: leave it out", param=name)
        if body.keys() & {BACKGROUND, PREVIOUS, STORE}:
            progress.call = replace(progress.call, request=stripped(progress.call.request))
        await self.corridor.serve(progress, reply)
