"""Records a reply while it is sent: a task stores the pieces in order, so that no write waits for the store.

It knows pieces and the store, not the content of answers.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.serving.idempotency import ALIVE_S, KEEP_S, AnswerStore, Piece, RecordKey
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.intake.types import Headers

MAX_ANSWER_BYTES = 4 << 20
"""Bytes of one record; a longer answer is sent, but not kept."""
SIGN_OF_LIFE_S = ALIVE_S / 4
"""Seconds between signs of life for an answer without new bytes."""


class AnswerRecorder:
    def __init__(
        self, answers: AnswerStore, key: RecordKey, request: RequestId, max_bytes: int, keep_s: float = KEEP_S
    ) -> None:
        self._request, self._keep_s = request, keep_s
        self._answers, self._key = answers, key
        self._left_bytes = max_bytes
        self._pieces: list[Piece] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def head(self, status: int, headers: Headers, used: bytes) -> None:
        told = dict(headers)
        content_type = told.get(b"content-type", b"").decode()
        version = told.get(b"x-penstock-version", b"").decode()
        piece = Piece(
            status=status,
            content_type=content_type,
            version=version,
            request=self._request,
            used=used,
            rule=told.get(b"x-penstock-auto", b"").decode(),
        )
        self._put(piece)

    def body(self, data: bytes) -> None:
        self._left_bytes -= len(data)
        if self._left_bytes >= 0:
            self._put(Piece(data=data))
        else:
            self._pieces.clear()
            self._news.set()

    @property
    def is_recording(self) -> bool:
        return self._left_bytes >= 0 and not self._task.done()

    async def close(self, *, keeps: bool) -> None:
        if keeps:
            self._put(Piece(is_end=True))
        else:
            self._task.cancel()
        with suppress(asyncio.CancelledError, StoreUnavailable):
            is_over = await self._task
            if is_over:
                return
        with suppress(StoreUnavailable):
            await self._answers.release(self._key)

    def _put(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._news.set()

    async def _run(self) -> bool:
        with suppress(Conflict):
            return await self._bring()
        return True

    async def _bring(self) -> bool:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SIGN_OF_LIFE_S):
                    await self._news.wait()
            self._news.clear()
            if self._left_bytes < 0:
                await self._answers.release(self._key)
                return True
            pieces, self._pieces = _joined(self._pieces), []
            for piece in pieces or [Piece()]:
                await self._answers.append(self._key, piece, self._keep_s)
                if piece.is_end:
                    return True


def _nothing() -> None: ...


class RecordedReply(PassedReply):
    """A reply that is recorded, and goes on after its caller has left for those that repeat the request."""

    def __init__(self, reply: Reply, recorder: AnswerRecorder, used: Callable[[], bytes]) -> None:
        super().__init__(reply)
        self._recorder, self._used = recorder, used
        self._on_gone = _nothing

    @property
    def gone(self) -> bool:
        return self._reply.gone and not self._recorder.is_recording

    def start(self, status: int, headers: Headers) -> None:
        self._recorder.head(status, headers, self._used())
        self._reply.start(status, headers)

    def write(self, data: bytes) -> None:
        if data:
            self._recorder.body(data)
            self._reply.write(data)
            if self.gone:
                on_gone, self._on_gone = self._on_gone, _nothing
                on_gone()

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self._on_gone = on_gone

        def left() -> None:
            (on_gone if self.gone else on_resume)()

        self._reply.watch(on_gone=left, on_pause=on_pause, on_resume=on_resume)


def _joined(pieces: list[Piece]) -> list[Piece]:
    heads = [piece for piece in pieces if piece.status]
    data = b"".join(piece.data for piece in pieces)
    ends = [piece for piece in pieces if piece.is_end]
    return [*heads, *([Piece(data=data)] if data else []), *ends]
