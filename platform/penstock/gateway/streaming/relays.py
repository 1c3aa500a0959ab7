"""Makes the relay for a request: of a stream, or of a whole answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId
from penstock.domain.serving.request import Api
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.rate_limits import anthropics
from penstock.gateway.calls.relay import Relay, Reply
from penstock.gateway.streaming import comparable
from penstock.gateway.streaming.continuation import Obstacle
from penstock.gateway.streaming.continuity import NO_WORKER, Continuity, End, TokenReader, same
from penstock.gateway.streaming.frame import NO_READS, AnswerReads, Frame
from penstock.gateway.streaming.stream_relay import StreamRelay
from penstock.gateway.streaming.unary_relay import Reads, UnaryRelay
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics, begin_at_zero


def _unwanted(_: Admitted) -> bool:
    return False


class Wants(NamedTuple):
    ids: Callable[[Admitted], bool] = _unwanted
    """Unstreamed answers that are read for their tokens."""
    json: Callable[[Admitted], bool] = _unwanted
    """Answers that are checked for the requested JSON."""
    labels: Callable[[Admitted], bool] = _unwanted
    """Classifications that are read for their labels."""


RenderError = Callable[[PenstockError, RequestId, Api], bytes]
"""Renders an error as the body of an answer, the same in band and with a status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Seconds. ``max_answer_bytes`` bounds a unary answer's memory."""

    heartbeat_s: float = 20.0
    stall_s: float = 30.0
    max_answer_bytes: int = 64 << 20


class StreamingRelays:
    def __init__(
        self,
        *,
        clock: Clock,
        render_error: RenderError,
        settings: RelaySettings,
        metrics: Metrics,
        reader: TokenReader | None = None,
        wants: Wants | None = None,
    ) -> None:
        self._reader, self._wants = reader, wants or Wants()
        self._continuations = metrics.counter(names.CONTINUATIONS)
        begin_at_zero(self._continuations, [End.CONTINUED], [""])
        begin_at_zero(self._continuations, [End.FAILED], [NO_WORKER])
        begin_at_zero(self._continuations, [End.REFUSED], Obstacle)
        self._clock = clock
        self._render_error = render_error
        self._settings = settings
        self._paused = metrics.counter(names.READER_PAUSED_SECONDS)
        self._heartbeats = metrics.counter(names.HEARTBEATS)

    def open(self, call: Admitted, reply: Reply) -> Relay:
        if call.request.api is Api.MESSAGES and call.lease.headers:
            openais = call.lease.headers
            call.lease.headers = list(dict([*openais, *anthropics(openais, self._clock.now())]).items())
        if not call.request.stream:
            labels = call.request.api is Api.CLASSIFY and self._wants.labels(call)
            reads = Reads(ids=self._wants.ids(call), json=self._wants_json(call), labels=labels)
            return UnaryRelay(self._frame(call, reply), self._settings.max_answer_bytes, reads)
        kept = comparable.KeptEvents() if self._wants_json(call) else None
        continuity = Continuity(call, self._reader, self._count, same if kept is None else kept.over)
        told = AnswerReads(ids=continuity.told)
        if kept is not None:
            told = told._replace(is_json=kept.is_json, form=kept.form)
        frame = self._frame(call, reply, told)
        return StreamRelay(frame, continuity, self._render_error, self._settings.heartbeat_s, self._heartbeats.inc)

    def _frame(self, call: Admitted, reply: Reply, reads: AnswerReads = NO_READS) -> Frame:
        return Frame(
            call=call,
            reply=reply,
            clock=self._clock.monotonic,
            stall_s=self._settings.stall_s,
            on_paused=self._paused.inc,
            reads=reads,
        )

    def _wants_json(self, call: Admitted) -> bool:
        return comparable.is_asked(call.request) and self._wants.json(call)

    def _count(self, end: End, reason: str) -> None:
        self._continuations.labels(outcome=end, reason=reason).inc()
