"""One request in the gate: its resources, first token, and client.

``send`` runs once per token in the engine's process: a plain function that returns the server's awaitable, so that a
chunk costs no coroutine.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

import msgspec

from penstock.domain.ids import RequestId
from penstock.domain.serving.report import Report
from penstock.domain.serving.request import Api
from penstock.domain.serving.slo import NO_PROMISE
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats.report import COMMENT, encode
from penstock.lateness.awake import awake_time
from penstock.telemetry import logs
from penstock.worker.gate.asgi import Message, Receive, Send
from penstock.worker.gate.queueing.yielding import PROMISED
from penstock.worker.gate.tally import Tally
from penstock.worker.meter import Meter, are_filled

_EVENT = b"data: {"
_STREAM = b"text/event-stream"
_ERRORS = (b'data: {"error"', b"event: error")
_FAILED = HTTPStatus.INTERNAL_SERVER_ERROR
_KIND = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
"""Names of errors, in characters: no sentence, which may quote a prompt."""
LAST_EVENTS: dict[str, tuple[bytes, ...]] = {
    Api.CHAT: (b"data: [DONE]",),
    Api.COMPLETIONS: (b"data: [DONE]",),
    Api.RESPONSES: (b"event: response.completed", b"event: response.incomplete", b"event: response.failed"),
    Api.MESSAGES: (b"event: message_stop",),
}
"""Prefixes of a stream's last event; vLLM's server sends whole events."""


class _ErrorType(msgspec.Struct):
    type: str = ""


class _ErrorBody(msgspec.Struct):
    error: _ErrorType


@dataclass(frozen=True, slots=True)
class Visit:
    """``request`` is its local id, since a gateway's id may come twice."""

    ticket: Ticket
    request: RequestId
    meter: Meter
    came_at: float
    """In awake seconds."""


@dataclass(frozen=True, slots=True)
class RequestChannels:
    """A request's channels, with the gate's report and the predicted TTFT (seconds)."""

    path: str
    receive: Receive
    send: Send
    clock: Callable[[], float]
    report: Report
    first_token_s: float | None = None


class InFlight:
    """The platform's probes do not count as load, but its checks of adapters do."""

    def __init__(self, visit: Visit, connection: RequestChannels, tally: Tally) -> None:
        ticket, meter = visit.ticket, visit.meter
        self._meter, self._last_event = meter, LAST_EVENTS.get(connection.path, ())
        self._request, self._is_metered, self._asked = visit.request, are_filled(), ticket.request
        self._status = _FAILED
        self._connection, self._tally = connection, tally
        self._send = connection.send
        self._prompt, self._output = max(0, ticket.prompt_tokens), max(0, ticket.expected_output_tokens)
        self._prompts = max(1, ticket.prompts)
        self._came_at = visit.came_at
        self._promise = ticket.promise if ticket.standing >= PROMISED else NO_PROMISE
        self._is_counted = ticket.tenant != PLATFORM or bool(ticket.adapter)
        self._has_first = self._is_gone = self._is_complete = self._has_failed = False
        self._late_tokens = 0
        self._entered_at = self._first_at = connection.clock()
        if self._is_counted:
            tally.book.enter(self._prompt, self._output)
            meter.watch(self._progressed, partial(tally.queue.stepped, self._promise))
        else:
            tally.book.probes += 1

    async def receive(self) -> Message:
        message = await self._connection.receive()
        if message["type"] == "http.disconnect" and not self._is_complete:
            self._is_gone = True
        return message

    def send(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._tally.headers(self._report(message))]
            return self._send(message)
        body = message.get("body", b"")
        if (self._status >= _FAILED and body) or body.startswith(_ERRORS):
            self.failed(_kind(body))
        if not self._is_metered and body:
            self._meter.made(body.count(_EVENT))
        if self._is_gone:
            self._late_tokens += body.count(_EVENT)
        elif not message.get("more_body"):
            self._is_complete = True
        if not self._meter.running and body.startswith(self._last_event):
            self._tell_at_the_end(message)
        return self._send(message)

    def failed(self, kind: str) -> None:
        """Log it once, without the engine's words."""
        if not self._has_failed:
            self._has_failed, status = True, self._status
            logs.logger().warning("engine_failed", request_id=self._asked, status=status, error_type=kind)

    def close(self) -> None:
        tally, meter = self._tally, self._meter
        if not self._is_counted:
            tally.book.probes -= 1
            return
        tally.book.leave(self._output if self._has_first else self._prompt + self._output)
        if self._has_first:
            tally.decode_s.observe(self._connection.clock() - self._first_at)
            meter.flush()
            if self._prompts > 1:  # what never came in is given back
                tally.queue.counted(self._request, meter.prompt_tokens)
        meter.close()
        tally.queue.leave(self._request, self._connection.clock())
        if not self._is_complete:
            tally.aborts.inc()
        if self._late_tokens:
            tally.late_tokens.inc(self._late_tokens)

    def _report(self, head: Message) -> Report:
        """Counts are complete, so not in a stream's head. An engine without meters gives none: unknown is not 0."""
        meter = self._meter
        is_stream = any(
            name == b"content-type" and value.startswith(_STREAM) for name, value in head.get("headers", ())
        )
        used = replace(meter.used, is_final=True) if self._is_metered and not is_stream else None
        return replace(self._connection.report, batched=meter.batched, used=used)

    def _tell_at_the_end(self, message: Message) -> None:
        if self._is_metered:
            message["body"] = b"%b%b\n%b" % (
                COMMENT,
                encode(Report(used=replace(self._meter.used, is_final=True))),
                message["body"],
            )

    def _progressed(self, tokens: int) -> None:
        """The first report means that the prompt is prefilled."""
        now, queue = self._connection.clock(), self._tally.queue
        if not self._has_first:
            self._has_first, self._first_at = True, now
            self._tally.book.prefilled(self._prompt)
            self._tally.prefill_s.observe(now - self._entered_at)
            self._judge(now)
            if self._meter.prompts >= self._prompts:
                queue.counted(self._request, self._meter.prompt_tokens)
        queue.progressed(self._request, tokens, now)

    def _judge(self, now: float) -> None:
        if not (self._meter.has_grammar or self._connection.report.adapted):  # compiled, loaded: nobody's steps
            self._tally.queue.first_token(self._promise, awake_time().seconds() - self._came_at, now)
        predicted_s, waited = self._connection.first_token_s, self._connection.report.waited
        took_s = now - self._entered_at + (waited.waited_s if waited is not None else 0.0)
        if predicted_s is not None and took_s > 0:
            self._tally.judged(predicted_s, took_s)


def _kind(body: bytes) -> str:
    said = body.partition(b"data: ")[2].partition(b"\n")[0] if body.startswith(_ERRORS) else body
    try:
        found = msgspec.json.decode(said, type=_ErrorBody).error.type
    except msgspec.MsgspecError:
        return "unknown"
    return found if _KIND.fullmatch(found) else "unknown"
