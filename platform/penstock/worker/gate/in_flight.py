"""One request on its way through the gate: what it holds, when its first token came, whether its client is still there.

Speaks ASGI messages and no framework. ``send`` runs once per token in the engine's own process: it is a plain
function that returns the server's awaitable, so that a chunk costs no coroutine of ours.

Tokens after a disconnect are counted as events that the engine's server still sent: a lower bound of what the engine
computed in vain, since it batches steps ahead of the server.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from penstock.domain import used
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.outcome import Stage
from penstock.domain.request import Api
from penstock.domain.tenant import PLATFORM
from penstock.domain.ticket import Ticket
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.worker.gate.admission.door import Door
from penstock.worker.gate.admission.load import LoadBook
from penstock.worker.meter import Meter, are_filled

Message = MutableMapping[str, Any]
"""An ASGI message."""

_EVENT = b"data: {"
_COMPLETION = re.compile(rb'"(?:completion_tokens|output_tokens)":\s*(\d+)')
_DECODED_MS = re.compile(rb'"generation_time_ms":\s*(\d+(?:\.\d+)?)')
"""What an answer that comes as a whole says of itself: the rest of its time was before its first token."""
_STREAM = b"text/event-stream"
_USED = used.HEADER.encode()
LAST_EVENTS: dict[str, tuple[bytes, ...]] = {
    Api.CHAT: (b"data: [DONE]",),
    Api.COMPLETIONS: (b"data: [DONE]",),
    Api.RESPONSES: (b"event: response.completed", b"event: response.incomplete", b"event: response.failed"),
    Api.MESSAGES: (b"event: message_stop",),
}
"""How the last event of a stream begins; vLLM's server sends whole events."""
_REPORT_EVERY = 16
"""A stream's tokens are reported to the door in lots: often enough for fairness, too seldom to cost anything."""

CATALOGUE = (
    names.GATE_REFUSALS,
    names.GATE_SECONDS,
    names.ABORTS,
    names.TOKENS_AFTER_DISCONNECT,
    names.QUEUED_TOKENS,
    names.DOOR_WAITING,
    names.DOOR_SATURATION,
    names.DOOR_STANDING_BACK,
    names.DOOR_SHED,
)


class Tally:
    """What all requests of one gate add up to."""

    def __init__(self, version: VersionId, book: LoadBook, door: Door) -> None:
        """Begin at zero."""
        self.book = book
        self.door = door
        self.metrics = Metrics(CATALOGUE)
        self.queue_s = self.metrics.histogram(names.GATE_SECONDS).labels(version, Stage.QUEUE)
        self.prefill_s = self.metrics.histogram(names.GATE_SECONDS).labels(version, Stage.PREFILL)
        self.decode_s = self.metrics.histogram(names.GATE_SECONDS).labels(version, Stage.DECODE)
        self.aborts = self.metrics.counter(names.ABORTS).labels(version)
        self.late_tokens = self.metrics.counter(names.TOKENS_AFTER_DISCONNECT).labels(version)
        self.shed = self.metrics.counter(names.DOOR_SHED)
        self.metrics.gauge(names.QUEUED_TOKENS).labels(version).set_function(lambda: book.queued_tokens)
        self.metrics.gauge(names.DOOR_WAITING).labels(version).set_function(lambda: len(door.order))
        self.metrics.gauge(names.DOOR_SATURATION).labels(version).set_function(lambda: door.seats.saturation)
        standing_back = self.metrics.gauge(names.DOOR_STANDING_BACK).labels(version)
        standing_back.set_function(lambda: door.order.look_at is not None)


@dataclass(frozen=True, slots=True)
class Connection:
    """What a request is connected to: its path, the server's channels, a clock in seconds, what each head carries."""

    path: str
    receive: Callable[[], Awaitable[Message]]
    send: Callable[[Message], Awaitable[None]]
    clock: Callable[[], float]
    headers: Callable[[], Iterable[tuple[bytes, bytes]]]


class InFlight:
    """One request inside the engine. The platform's own probes pass uncounted."""

    __slots__ = (
        "_connection",
        "_entered_at",
        "_first_at",
        "_has_first",
        "_is_complete",
        "_is_counted",
        "_is_gone",
        "_is_watched",
        "_last_event",
        "_late_tokens",
        "_meter",
        "_output",
        "_prompt",
        "_request",
        "_send",
        "_tally",
        "_unreported",
    )

    def __init__(self, ticket: Ticket, request: RequestId, connection: Connection, tally: Tally, meter: Meter) -> None:
        """Begin; ``request`` is its name at the door."""
        self._meter, self._last_event = meter, LAST_EVENTS.get(connection.path, ())
        self._request, self._unreported = request, 0
        self._connection, self._tally = connection, tally
        self._send = connection.send
        self._prompt, self._output = max(0, ticket.prompt_tokens), max(0, ticket.expected_output_tokens)
        self._is_counted = ticket.tenant != PLATFORM
        self._has_first = self._is_gone = self._is_complete = False
        self._is_watched = True
        self._late_tokens = 0
        self._entered_at = self._first_at = connection.clock()
        if self._is_counted:
            tally.book.enter(self._prompt, self._output)

    async def receive(self) -> Message:
        """Pass a message from the client on; note when it says that the client is gone."""
        message = await self._connection.receive()
        if message["type"] == "http.disconnect" and not self._is_complete:
            self._is_gone = self._is_watched = True
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Pass a message to the client on."""
        if self._is_watched or not message.get("more_body"):
            self._look_at(message)
        else:
            self._unreported += 1
            if self._unreported == _REPORT_EVERY:
                self._report()
            if not self._meter.running and message["body"].startswith(self._last_event):
                self._tell_at_the_end(message)
        return self._send(message)

    def close(self) -> None:
        """End it, however it ended."""
        tally = self._tally
        if not self._is_counted:
            return
        tally.book.leave(self._output if self._has_first else self._prompt + self._output)
        if self._has_first:
            tally.decode_s.observe(self._connection.clock() - self._first_at)
            self._report()
        tally.door.leave(self._request, self._connection.clock())
        if not self._is_complete:
            tally.aborts.inc()
        if self._late_tokens:
            tally.late_tokens.inc(self._late_tokens)

    def _look_at(self, message: Message) -> None:
        """See the head, the first bytes, the last ones, and all that come after the client has left."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *self._connection.headers(), *self._counts(message)]
            return
        body = message.get("body", b"")
        if body.startswith(self._last_event):
            self._tell_at_the_end(message)
        if self._is_gone:
            self._late_tokens += body.count(_EVENT)
        elif not message.get("more_body"):
            self._is_complete = True
        if body and not self._has_first:
            self._unreported = events = body.count(_EVENT)
            if not events:
                self._unreported = int(_said(_COMPLETION, body))
            self._see_first(0.0 if events else _said(_DECODED_MS, body) / 1e3)

    def _counts(self, head: Message) -> Iterable[tuple[bytes, bytes]]:
        """Return the header that tells what the request took, where all of it is known: not yet with a stream's head.

        Beside an engine that nobody counts nothing is told: unknown is not 0.
        """
        if any(name == b"content-type" and value.startswith(_STREAM) for name, value in head.get("headers", ())):
            return ()
        if not are_filled():
            return ()
        return ((_USED, used.told(self._meter.used)),)

    def _tell_at_the_end(self, message: Message) -> None:
        """Put what the request took in front of its stream's last event, in the same event: they come together."""
        if are_filled():
            message["body"] = b"%b%b\n%b" % (used.COMMENT, used.told(self._meter.used), message["body"])

    def _see_first(self, decoded_s: float) -> None:
        self._has_first, self._is_watched = True, self._is_gone
        self._first_at = self._connection.clock()
        if self._is_counted:
            self._tally.book.prefilled(self._prompt)
            if self._meter.prompts:
                self._tally.door.counted(self._request, self._meter.prompt_tokens)
            self._tally.prefill_s.observe(self._first_at - self._entered_at)
            self._report(decoded_s)

    def _report(self, decoded_s: float = 0.0) -> None:
        """Report to the door what came since the last report; each chunk of a stream counts as one token."""
        if self._is_counted:
            self._tally.door.progressed(self._request, self._unreported, self._connection.clock(), decoded_s)
        self._unreported = 0


def _said(what: re.Pattern[bytes], body: bytes) -> float:
    found = what.search(body)
    return float(found[1]) if found else 0.0
