"""Replies over gRPC: an answer as one message, or as a message per piece of text.

Writing never waits: messages stay in an outbox, which the call's writer empties at the client's pace. Text that arrives
meanwhile is added to the next message, so that a slow client gets fewer and longer messages.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.domain.errors import EngineError, PenstockError
from penstock.gateway.answers import account
from penstock.gateway.oip import forms
from penstock.gateway.oip.catalogue import digest_of
from penstock.gateway.oip.grpc import messages
from penstock.gateway.oip.nouns import InferAnswer, Named, Parameter
from penstock.intake.types import Headers

FINAL = "triton_final_response"
"""The parameter that marks an answer's last message for Triton's clients."""
_DATA, _OWN, _ERROR, _DONE = b"data: ", b": penstock ", b'data: {"error"', b"data: [DONE]"


def _nothing() -> None: ...


def _unheard(_: bytes) -> None: ...


class RpcReply:
    def __init__(self) -> None:
        self.head: Headers = []
        self._is_started = self._is_gone = self._is_over = False
        self._on_gone = self._on_pause = self._on_resume = _nothing

    @property
    def started(self) -> bool:
        return self._is_started

    @property
    def gone(self) -> bool:
        return self._is_gone

    @property
    def version(self) -> str:
        return digest_of(dict(self.head).get(b"x-penstock-version", b"").decode())

    def start(self, status: int, headers: Headers) -> None:
        del status
        self._is_started, self.head = True, headers

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        if self._is_gone:
            asyncio.get_running_loop().call_soon(on_gone)
            return
        self._on_gone, self._on_pause, self._on_resume = on_gone, on_pause, on_resume

    def lost(self) -> None:
        if not self._is_gone and not self._is_over:
            self._is_gone = True
            self._on_gone()
            self._forget()

    def abort(self) -> None:
        self._is_gone = True
        self._forget()

    def _forget(self) -> None:
        self._on_gone = self._on_pause = self._on_resume = _nothing

    def part(self) -> None:
        """Drop references, which avoids a cycle for the garbage collector."""
        self._forget()


class WholeReply(RpcReply):
    def __init__(self, done: Callable[[bytes], None]) -> None:
        super().__init__()
        self._done = done
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._forget()
            if self._is_started and not self._is_gone:
                self._done(b"".join(self._pieces))

    def part(self) -> None:
        super().part()
        self._done = _unheard


class Speaker(Protocol):
    is_queued: bool

    def take(self) -> bytes:
        """Return all pending content as one message."""
        ...


class Outbox:
    def __init__(self) -> None:
        self._speakers: deque[Speaker] = deque()
        self._news = asyncio.Event()
        self._is_closed = False

    def ready(self, speaker: Speaker) -> None:
        if not speaker.is_queued:
            speaker.is_queued = True
            self._speakers.append(speaker)
            self._news.set()

    def close(self) -> None:
        self._is_closed = True
        self._news.set()

    async def next(self) -> bytes | None:
        while not self._speakers:
            if self._is_closed:
                return None
            self._news.clear()
            await self._news.wait()
        speaker = self._speakers.popleft()
        speaker.is_queued = False
        return speaker.take()


class Said:
    """A source of a single complete message."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self.is_queued = False

    def take(self) -> bytes:
        return self._message


class TextReply(RpcReply):
    """Takes the events of a completion, and gives their text."""

    def __init__(self, outbox: Outbox, model: str, caller_id: str, buffer_bytes: int) -> None:
        super().__init__()
        self._outbox, self._buffer_bytes = outbox, buffer_bytes
        self._model, self._id = model, caller_id
        self._texts: list[str] = []
        self._waiting_chars = 0
        self._is_paused = False
        self._reason = ""
        self._usage = self._own = b""
        self._error: PenstockError | None = None
        self._told: dict[str, Parameter] = {}
        self._piece: messages.Piece | None = None
        self.is_queued = False

    @property
    def told(self) -> dict[str, Parameter]:
        return self._told

    def write(self, data: bytes) -> None:
        if self._is_gone:
            return
        try:
            for event in data.split(b"\n\n"):
                self._take_event(event)
        except EngineError as error:
            self._error = error
        if self._texts and not self._reason:  # the last text goes with what is said at the end
            self._outbox.ready(self)
            if not self._is_paused and self._waiting_chars > self._buffer_bytes:
                self._is_paused = True
                self._on_pause()

    def _take_event(self, event: bytes) -> None:
        if event.startswith(_ERROR):
            self._error = _error_of(event[len(_DATA) :])
        elif event.startswith(_OWN):
            own, _, event = event.partition(b"\n")
            self._own = own[len(_OWN) :]
        elif event.startswith(_DATA) and not event.startswith(_DONE):
            said = forms.completion(event[len(_DATA) :])
            if said.usage is not None:
                self._told |= forms.told(said.usage, None)
            for choice in said.choices:
                self._reason = choice.finish_reason or self._reason
                if choice.text:
                    self._texts.append(choice.text)
                    self._waiting_chars += len(choice.text)

    def finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._forget()
            if self._is_started and not self._is_gone:
                self._told |= forms.told(None, forms.own(self._own)) if self._own else {}
                self._outbox.ready(self)

    def take(self) -> bytes:
        text = "".join(self._texts)
        self._texts.clear()
        self._waiting_chars = 0
        if self._is_paused:
            self._is_paused = False
            self._on_resume()
        if not self._is_over:
            if self._piece is None:
                self._piece = messages.Piece(self._named(), forms.piece(""), {FINAL: False})
            return self._piece.of(text.encode())
        parameters = {**self._told, FINAL: True}
        if self._error is not None:
            return messages.streamed(InferAnswer(outputs=(), parameters=parameters), self._named(), str(self._error))
        return messages.streamed(
            InferAnswer(outputs=forms.piece(text, self._reason), parameters=parameters), self._named()
        )

    def _named(self) -> Named:
        return Named(model=self._model, version=self.version, id=self._id)


def _error_of(raw: bytes) -> PenstockError:
    return EngineError(account.error_message(raw))
