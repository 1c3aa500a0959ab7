"""Relays a stream: whole events as they arrive, and exactly one terminal event.

A chunk costs a few byte searches and one write. After the first byte no status can be sent any more: another worker
continues the stream if possible (``continuity``), and errors become events (and never ``[DONE]``).
"""

import asyncio
from collections.abc import Callable

from penstock.domain.errors import AnswerUnformed, EngineError, PenstockError, ReaderTooSlow, StreamBroken
from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.engine import is_dead
from penstock.domain.serving.request import Api
from penstock.formats.report import COMMENT, decode
from penstock.gateway.answers import account, sse
from penstock.gateway.answers.sse import EventScanner
from penstock.gateway.calls.call import Answer
from penstock.gateway.calls.relay import Rest, Source
from penstock.gateway.streaming import service_tier, stages
from penstock.gateway.streaming.continuity import Continuity
from penstock.gateway.streaming.dialects import DIALECTS
from penstock.gateway.streaming.frame import Frame

HEARTBEAT = b": waiting\n\n"
_HEAD = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class StreamRelay:
    def __init__(
        self,
        frame: Frame,
        continuity: Continuity,
        render_error: Callable[[PenstockError, RequestId, Api], bytes],
        heartbeat_s: float,
        on_beat: Callable[[], None],
    ) -> None:
        self._frame = frame
        self._render_error = render_error
        self._dialect = DIALECTS[frame.call.request.api]
        self._shows_usage = frame.call.request.include_usage
        self._scanner = EventScanner()
        self._continuity = continuity
        self._take = continuity.take_or(self._dialect.counted)
        self._begun = False
        self._is_deaf = False
        self._lost: PenstockError | None = None
        self._failure: PenstockError | None = None
        self._last_at = frame.clock()
        self._write = self._named(frame.reply.write, service_tier.naming(frame.call))
        frame.lease.end_early = self._end_early
        self._beat_s = heartbeat_s
        self._on_beat = on_beat
        self._beat: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(heartbeat_s, self._silence)
        self._watch = frame.watch(self._stopped, self._resumed)

    @staticmethod
    def _named(write: Callable[[bytes], None], edit: service_tier.Edit | None) -> Callable[[bytes], None]:
        return write if edit is None else lambda events: write(edit(events))

    # -- the worker's side -------------------------------------------------------------

    @property
    def has_delivered(self) -> bool:
        return self._begun

    @property
    def stopped(self) -> PenstockError | None:
        return self._watch.stopped or self._failure

    @property
    def wants_token_ids(self) -> bool:
        return self._continuity.keeps

    def attach(self, source: Source) -> None:
        self._scanner = EventScanner()
        self._take = self._continuity.take_or(self._dialect.counted)
        self._begun = False
        self._is_deaf = self._frame.is_over
        self._frame.sent()
        self._watch.attach(source)
        if self._failure is not None:
            source.abort(self._failure)

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The head is sent with the first event."""

    def on_body(self, data: bytes) -> None:
        if self._is_deaf:
            return
        frame = self._frame
        try:
            events = self._scanner.feed(data)
            if not events:
                return
            now = frame.clock()
            if self._begun:
                frame.itl_s.append(now - self._last_at)
            else:
                self._begin(now)
            self._last_at = now
            tokens, events = self._take(events)
        except ValueError:
            self._end_with(self._lost or EngineError())
            return
        frame.tokens += tokens
        frame.lease.delivered = frame.tokens
        for mark in self._dialect.notable:
            if mark in events:
                self._look_into(*sse.parted(events, self._dialect.notable))
                return
        if events:
            self._write(events)

    def on_end(self, error: BaseException | None) -> None:
        del error
        if self._begun and not self._is_deaf:
            self._lose(StreamBroken())

    # -- the pipeline's side -----------------------------------------------------------

    def fail(self, error: PenstockError) -> Answer:
        """A broken stream that no worker continues ends with the error that broke it."""
        if self._lost is not None and not self._frame.is_over:
            self._continuity.failed()
            error = self._lost
        return self._fail(error)

    async def rest(self) -> Rest | None:
        frame = self._frame
        await frame.news()
        lost = None if frame.is_over else self._lost
        if lost is None:
            return None
        rest = await self._continuity.rest(lost)
        if frame.is_over:
            return None
        if rest is None:
            self._fail(lost)
        return rest

    async def answer(self) -> Answer:
        return await self._frame.answer()

    def _fail(self, error: PenstockError) -> Answer:
        frame = self._frame
        if not frame.is_over:
            self._failure = error
            self._close()
            frame.tokens = self._continuity.tokens(frame.tokens)
            reply = frame.reply
            if isinstance(error, ReaderTooSlow):
                reply.abort()
            elif reply.started and not reply.gone:
                request = frame.call.request
                self._write(self._dialect.error_event(self._render_error(error, request.id, request.api)))
                reply.finish()
        return frame.settle_with(error)

    # -- events ------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        """Begin the reply, or resume it after a break."""
        frame = self._frame
        self._begun = True
        frame.call.timings.mark(Stage.PREFILL)
        if frame.first_at is None:
            frame.first_at = now
            self._start()
            return
        frame.itl_s.append(now - self._last_at)
        frame.tokens = frame.call.attempts.kept_tokens = self._continuity.kept
        frame.call.attempts.continued_at.append(now)
        self._lost = None
        self._continuity.continued()

    def _start(self) -> None:
        frame = self._frame
        if not frame.reply.started:
            frame.reply.start(200, frame.head(b"text/event-stream; charset=utf-8", *_HEAD))

    def _look_into(self, plain: bytes, events: bytes) -> None:
        dialect = self._dialect
        out = [plain]
        for event in map(self._without_count, sse.split(events)):
            if event.startswith(dialect.error) or dialect.aborted in event:
                self._write(b"".join(out))
                self._break(sse.data_of(event))
                return
            if event.startswith(dialect.terminal):
                self._end(b"".join(out), event)
                return
            if self._passes(event):
                out.append(stages.cache_written(event))
        self._write(b"".join(out))

    def _break(self, said: bytes) -> None:
        """The engine's refusal ends it; after another error another worker may continue. A refusal after tokens
        concerns the engine's own answer.
        """
        refusal = account.refusal(said)
        if refusal is None:
            self._lose(StreamBroken() if is_dead(said) else EngineError())
        else:
            self._end_with(AnswerUnformed() if self._frame.tokens else refusal)

    def _without_count(self, event: bytes) -> bytes:
        if not event.startswith(COMMENT):
            return event
        line, _, event = event.partition(b"\n")
        self._frame.call.attempts.used = decode(line.removeprefix(COMMENT)).used
        return event

    def _passes(self, event: bytes) -> bool:
        if not any(mark in event for mark in self._dialect.notable):
            return True
        said = account.read(sse.data_of(event))
        self._frame.learn(said)
        return self._shows_usage or not said.is_usage_only

    def _end(self, before: bytes, terminal: bytes) -> None:
        frame = self._frame
        frame.learn(account.read(sse.data_of(terminal)))
        frame.close_stages()
        self._close()
        call = frame.call
        note = b": penstock %b\n\n" % stages.field(call, frame.version)
        self._write(before + note + terminal)
        frame.reply.finish()
        frame.settle(Outcome.OK)

    def _lose(self, error: PenstockError) -> None:
        """Wake the pipeline, which asks for the ``rest``."""
        self._watch.drop_source(error)
        ending = self._continuity.ending(has_usage=self._frame.usage is not None)
        if ending:
            self._look_into(b"", ending)
            return
        self._frame.call.timings.mark(Stage.DECODE)
        self._is_deaf = True
        self._lost = error
        self._frame.wake()

    def _end_early(self, error: PenstockError) -> None:
        if self._frame.first_at is not None and not self._frame.is_over:
            self._end_with(error)

    def _end_with(self, error: PenstockError) -> None:
        self._watch.drop_source(error)
        self._frame.call.timings.mark(Stage.DECODE)
        self._fail(error)

    # -- watching ----------------------------------------------------------------------

    def _stopped(self, error: PenstockError) -> None:
        if self._frame.first_at is not None:
            self._frame.call.timings.mark(Stage.DECODE)
            self._fail(error)

    def _resumed(self, paused_s: float) -> None:
        self._last_at += min(paused_s, max(0.0, self._frame.clock() - self._last_at))

    def _silence(self) -> None:
        """Send a comment. It commits the status, so later errors are events."""
        frame = self._frame
        left = self._beat_s - (frame.clock() - self._last_at)
        if left <= 0.0:
            left = self._beat_s
            self._last_at = self._last_at if frame.first_at is not None else frame.clock()
            self._start()
            self._write(HEARTBEAT)
            self._on_beat()
        self._beat = asyncio.get_running_loop().call_later(left, self._silence)

    def _close(self) -> None:
        self._is_deaf = True
        self._watch.close()
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
