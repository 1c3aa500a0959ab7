"""Responses to waiting callers: stored turns before the input, and the answer kept before its last byte goes out.

It stands in front of the pipeline for ``/v1/responses`` alone. Engines never see the fields that it serves, so their
own stores stay empty. Trade-off: the last event of a stream waits for two writes; in return ``store`` is true.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.domain.clock import Clock
from penstock.domain.errors import ExceedsLimit, PenstockError
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.payload import PayloadStore
from penstock.domain.jobs.stored_response import ResponseId, StoredResponse, object_of
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.deferred import response_bodies, turns
from penstock.gateway.deferred.stored_responses import ResponseStore
from penstock.gateway.deferred.stored_turns import StoredTurns
from penstock.gateway.openai.idempotent import record_key
from penstock.gateway.openai.parse import PREVIOUS, STORE
from penstock.gateway.openai.services import Corridor
from penstock.intake.types import Headers
from penstock.lateness.awake import timeout

KEEP_S = 1.0
"""Seconds that an answer's end waits for the stores at most; then it says that it is not kept."""
_COMPLETED, _INCOMPLETE = _ENDS = (b"event: response.completed", b"event: response.incomplete")
_RESPONSE = b'"previous_response_id":null'
"""What every response object of an engine has, and no text: its quotes are escaped."""
HTTP_OK = 200


class KeepOutcome(StrEnum):
    KEPT = "kept"
    FAILED = "failed"
    FULL = "full"


def _uncounted(_: KeepOutcome) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponses:
    corridor: Corridor
    turns: StoredTurns
    rows: ResponseStore
    payloads: PayloadStore
    clock: Clock
    count: Callable[[KeepOutcome], None] = _uncounted

    async def serve(self, progress: Progress, reply: Reply) -> None:
        call, asked = progress.call, progress.call.request.body
        keeps = asked.get(STORE) is not False and not call.principal.plan.zero_retention
        progress.call = replace(call, request=await self.turns.joined(call))
        own = {PREVIOUS: asked.get(PREVIOUS), **response_bodies.asked_of(asked, *response_bodies.ALIKE)}
        way = ShownReply(reply, {**own, STORE: keeps}, self.clock, is_stream=call.request.stream)
        is_kept = False
        try:
            await self.corridor.serve(progress, way)
            answer = progress.answer
            if keeps and answer is not None and answer.outcome.is_answer and (body := way.final()):
                context = turns.context_of(progress.call.request.body)
                is_kept = await self._kept(call, context, body)
        finally:
            way.end(is_kept=is_kept)

    async def _kept(self, call: Call, context: bytes, body: bytes) -> bool:
        now, response = self.clock.now(), ResponseId(response_bodies.id_of(body))
        who, key = call.principal, call.request.idempotency_key
        stored = StoredResponse(
            id=response,
            tenant=who.tenant,
            object=object_of(response),
            created_at=now,
            expires_at=now + who.plan.keep_s,
            input_bytes=len(context),
            body_at=len(context),
            body_bytes=len(body),
            answer_key=record_key(who, key).name if key else "",
        )
        outcome = KeepOutcome.KEPT
        try:
            async with timeout(KEEP_S):
                await self.payloads.put(who.tenant, stored.object, context + body)
                await self.rows.add(stored, who.plan.file_bytes)
        except (NoFileRoom, ExceedsLimit):
            outcome = KeepOutcome.FULL
            with suppress(PenstockError):  # retention finds it
                await self.payloads.delete(stored.object)
        except (PenstockError, TimeoutError):
            outcome = KeepOutcome.FAILED
        self.count(outcome)
        return outcome is KeepOutcome.KEPT


class ShownReply(PassedReply):
    """Completes the answer's response objects by fields that an engine does not know or does not show.

    A whole answer, or a stream from its last event on, is held until ``end``.
    """

    def __init__(self, reply: Reply, own: response_bodies.Object, clock: Clock, *, is_stream: bool) -> None:
        super().__init__(reply)
        self._is_stream = is_stream
        self._own, self._clock, self._ended_at = own, clock, 0.0
        self._head: tuple[int, Headers] | None = None
        self._held: list[bytes] = []
        self._whole: response_bodies.Object | None = None
        """A whole answer as the engine gave it, once it was decoded."""
        self._is_finished = False

    def start(self, status: int, headers: Headers) -> None:
        if self._is_stream:
            self._reply.start(status, headers)
        else:
            self._head = status, headers

    def write(self, data: bytes) -> None:
        if not self._is_stream or self._held or _COMPLETED in data or _INCOMPLETE in data:
            self._held.append(data)
        else:
            self._reply.write(self._events(data))

    def finish(self) -> None:
        self._is_finished, self._ended_at = True, self._clock.now()

    def final(self) -> bytes:
        """Return the ended response object as a kept one is shown; empty if there is none."""
        held = b"".join(self._held)
        if self._is_stream:
            last = next((event for event in sse.split(held) if event.startswith(_ENDS)), b"")
            held = response_bodies.response_in(sse.data_of(last)) if last else b""
        if not held:
            return b""
        self._whole = response_bodies.decoded(held)
        return response_bodies.encoded(self._shown(self._whole))

    def end(self, *, is_kept: bool) -> None:
        self._own = {**self._own, STORE: is_kept}
        held, self._held = b"".join(self._held), []
        if not self._is_finished:
            self._reply.write(held)
            return
        if self._head is not None:
            status, headers = self._head
            if status == HTTP_OK:
                held = response_bodies.encoded(self._shown(self._whole or response_bodies.decoded(held)))
            sized = [pair for pair in headers if pair[0] != b"content-length"]
            self._reply.start(status, [*sized, (b"content-length", b"%d" % len(held))])
            self._reply.write(held)
        elif held:
            self._reply.write(self._events(held))
        self._reply.finish()

    def _events(self, data: bytes) -> bytes:
        if _RESPONSE not in data:
            return data
        return b"".join(self._event(event) if _RESPONSE in event else event for event in sse.split(data))

    def _event(self, event: bytes) -> bytes:
        head, mark, _ = event.partition(b"data: ")
        told = response_bodies.decoded(sse.data_of(event))
        inside = told.get("response")
        if not isinstance(inside, dict):
            return event
        return head + mark + response_bodies.encoded({**told, "response": self._shown(inside)}) + sse.END

    def _shown(self, engines: response_bodies.Object) -> response_bodies.Object:
        return response_bodies.shown(engines, self._own, self._ended_at)
