"""Responses to waiting callers: stored turns before the input, and the answer kept after it was sent.

It stands in front of the pipeline for ``/v1/responses`` alone. Engines never see the fields that it serves, so their
own stores stay empty. An answer waits for nothing: its last bytes are looked at, and stored in the background.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from enum import StrEnum

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.jobs.payload import PayloadStore
from penstock.domain.jobs.stored_response import ResponseId, StoredResponse, object_of
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Progress
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.deferred import response_bodies, turns
from penstock.gateway.deferred.stored_responses import ResponseStore
from penstock.gateway.deferred.stored_turns import StoredTurns
from penstock.gateway.openai.parse import PREVIOUS, STORE
from penstock.gateway.openai.services import Corridor
from penstock.intake.types import Headers

MOST_PENDING_BYTES = 64 << 20
"""Bytes of answers that wait to be stored: beyond, the store is too slow, and further answers are dropped."""
_COMPLETED, _INCOMPLETE = _ENDS = (b"event: response.completed", b"event: response.incomplete")
_RESPONSE = b'"previous_response_id":null'
"""What every response object of an engine has, and no text: its quotes are escaped."""
FAILED_S = 30.0
"""Seconds after a failure to store for which answers say that they are not kept."""


HTTP_OK = 200


class KeepOutcome(StrEnum):
    KEPT = "kept"
    FAILED = "failed"
    DROPPED = "dropped"


def _uncounted(_: KeepOutcome) -> None: ...


@dataclass(slots=True)
class _Pending:
    size_bytes: int = 0
    failed_at: float = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponses:
    """``spawn`` runs what an answer does not wait for."""

    corridor: Corridor
    turns: StoredTurns
    rows: ResponseStore
    payloads: PayloadStore
    clock: Clock
    spawn: Callable[[Coroutine[None, None, None]], object]
    count: Callable[[KeepOutcome], None] = _uncounted
    pending: _Pending = field(default_factory=_Pending)

    async def serve(self, progress: Progress, reply: Reply) -> None:
        call, asked = progress.call, progress.call.request.body
        previous, keeps = asked.get(PREVIOUS), asked.get(STORE) is not False and not call.principal.plan.zero_retention
        progress.call = replace(call, request=await self.turns.joined(call))
        tail = TailReply(reply, is_stream=call.request.stream)
        says_kept = keeps and self.clock.now() > self.pending.failed_at + FAILED_S
        own = {PREVIOUS: previous, STORE: says_kept, **response_bodies.asked_of(asked, *response_bodies.ALIKE)}
        way = ShownReply(tail if keeps else reply, own, self.clock, is_stream=call.request.stream)
        await self.corridor.serve(progress, way)
        answer = progress.answer
        if keeps and answer is not None and answer.outcome is Outcome.OK and (body := tail.body()):
            self._keep(call.principal, turns.context_of(progress.call.request.body), body)

    def _keep(self, who: Principal, context: bytes, body: bytes) -> None:
        size = len(context) + len(body)
        if self.pending.size_bytes + size > MOST_PENDING_BYTES:
            self.pending.failed_at = self.clock.now()
            self.count(KeepOutcome.DROPPED)
            return
        self.pending.size_bytes += size
        self.spawn(self._stored(who, context, body))

    async def _stored(self, who: Principal, context: bytes, body: bytes) -> None:
        now, response = self.clock.now(), ResponseId(response_bodies.id_of(body))
        stored = StoredResponse(
            id=response,
            tenant=who.tenant,
            object=object_of(response),
            created_at=now,
            expires_at=now + who.plan.keep_s,
            input_bytes=len(context),
            body_at=len(context),
            body_bytes=len(body),
        )
        try:
            await self.payloads.put(who.tenant, stored.object, context + body)
            await self.rows.add(stored)
        except PenstockError:
            self.pending.failed_at = self.clock.now()
            self.count(KeepOutcome.FAILED)
        else:
            self.pending.failed_at = float("-inf")
            self.count(KeepOutcome.KEPT)
        finally:
            self.pending.size_bytes -= len(context) + len(body)


class TailReply(PassedReply):
    """Keeps a whole answer, or a stream's last event."""

    def __init__(self, reply: Reply, *, is_stream: bool) -> None:
        super().__init__(reply)
        self._is_stream = is_stream
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._reply.write(data)
        if not self._is_stream or self._pieces or _COMPLETED in data or _INCOMPLETE in data:
            self._pieces.append(data)

    def body(self) -> bytes:
        whole = b"".join(self._pieces)
        if not self._is_stream:
            return whole
        last = next((event for event in sse.split(whole) if event.startswith(_ENDS)), b"")
        return response_bodies.response_in(sse.data_of(last)) if last else b""


class ShownReply(PassedReply):
    """Completes the answer's response objects by fields that an engine does not know or does not show."""

    def __init__(self, reply: Reply, own: response_bodies.Object, clock: Clock, *, is_stream: bool) -> None:
        super().__init__(reply)
        self._is_stream = is_stream
        self._own, self._clock = own, clock
        self._head: tuple[int, Headers] | None = None
        self._pieces: list[bytes] = []

    def start(self, status: int, headers: Headers) -> None:
        if self._is_stream:
            self._reply.start(status, headers)
        else:
            self._head = status, headers

    def write(self, data: bytes) -> None:
        if self._is_stream:
            self._reply.write(self._events(data) if _RESPONSE in data else data)
        else:
            self._pieces.append(data)

    def finish(self) -> None:
        if self._head is not None:
            (status, headers), body = self._head, b"".join(self._pieces)
            if status == HTTP_OK:
                body = response_bodies.encoded(self._shown(response_bodies.decoded(body)))
            sized = [pair for pair in headers if pair[0] != b"content-length"]
            self._reply.start(status, [*sized, (b"content-length", b"%d" % len(body))])
            self._reply.write(body)
        self._reply.finish()

    def _events(self, data: bytes) -> bytes:
        return b"".join(self._event(event) if _RESPONSE in event else event for event in sse.split(data))

    def _event(self, event: bytes) -> bytes:
        head, mark, _ = event.partition(b"data: ")
        told = response_bodies.decoded(sse.data_of(event))
        inside = told.get("response")
        if not isinstance(inside, dict):
            return event
        return head + mark + response_bodies.encoded({**told, "response": self._shown(inside)}) + sse.END

    def _shown(self, engines: response_bodies.Object) -> response_bodies.Object:
        return response_bodies.shown(engines, self._own, self._clock.now())
