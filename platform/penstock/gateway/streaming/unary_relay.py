"""Relays an unstreamed answer: nothing reaches the client before it is complete, so another worker can be tried.

The body stays bytes: a narrow decoder reads the usage, and the platform's field is inserted.
"""

from functools import partial
from typing import NamedTuple

from penstock.domain.errors import (
    BudgetReached,
    EngineError,
    Failed,
    LimitReached,
    OverBudget,
    PenstockError,
    ReaderTooSlow,
)
from penstock.domain.outcome import Outcome
from penstock.filters.errors import AnswerFiltered
from penstock.gateway.answers import account, content
from penstock.gateway.calls.call import Answer
from penstock.gateway.calls.relay import Rest, Source
from penstock.gateway.streaming import comparable, service_tier, stages
from penstock.gateway.streaming.frame import NO_READS, AnswerReads, Frame

READ_BYTES = 1 << 20
"""Bytes that are read in 4 ms at most: 20 times as many take 100 to 130, which would delay all streams."""


class Reads(NamedTuple):
    ids: bool = False
    json: bool = False
    """Whether the answer is checked for the requested JSON."""
    labels: bool = False
    """Whether the answer's labels are read."""


NOTHING = Reads()


class UnaryRelay:
    __slots__ = ("_content_type", "_delivered", "_frame", "_max_bytes", "_pieces", "_reads", "_size", "_watch")

    def __init__(self, frame: Frame, max_bytes: int, reads: Reads = NOTHING) -> None:
        self._frame, self._reads = frame, reads
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._content_type = b"application/json"
        self._delivered = False
        frame.lease.end_early = self._end_early
        self._watch = frame.watch(self._stopped)

    @property
    def has_delivered(self) -> bool:
        return self._delivered

    @property
    def stopped(self) -> PenstockError | None:
        return self._watch.stopped

    @property
    def wants_token_ids(self) -> bool:
        """A comparison reads them; a broken answer is requested again without them."""
        return self._reads.ids

    async def rest(self) -> Rest | None:
        await self._frame.answer()
        return None

    def attach(self, source: Source) -> None:
        self._pieces, self._size = [], 0
        self._frame.sent()
        self._watch.attach(source)

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del status
        for name, value in headers:
            if name.lower() == b"content-type":
                self._content_type = value

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._max_bytes:
            self._watch.drop_source(EngineError("the answer is larger than the gateway passes on"))
            return
        self._pieces.append(data)

    def on_end(self, error: BaseException | None) -> None:
        if error is not None or self._frame.is_over:
            return
        frame, reply = self._frame, self._frame.reply
        pieces, self._pieces = self._pieces, []
        told = NO_READS
        if any(self._reads):
            whole, told = self._read(b"".join(pieces))
            pieces = [whole]
        if self._size <= READ_BYTES or frame.call.attempts.used is None:
            pieces = [b"".join(pieces)]
            frame.learn(account.read(pieces[0]))
        frame.first_at = None
        frame.close_stages()
        if self._content_type.startswith(b"application/json"):
            if (named := service_tier.naming(frame.call)) is not None:
                pieces = [named(b"".join(pieces))]
            pieces = stages.spliced(
                [*pieces[:-1], stages.cache_written(pieces[-1])], stages.field(frame.call, frame.version)
            )
        self._delivered = True
        self._watch.close()
        reply.start(200, frame.head(self._content_type, (b"content-length", b"%d" % sum(map(len, pieces)))))
        for piece in pieces:
            reply.write(piece)
        reply.finish()
        frame.settle(Outcome.OK, reads=told)

    def fail(self, error: PenstockError) -> Answer:
        if not self._frame.is_over:
            self._watch.close()
            if self._frame.reply.started or isinstance(error, ReaderTooSlow):
                self._frame.reply.abort()
        return self._frame.settle_with(error)

    async def answer(self) -> Answer:
        return await self._frame.answer()

    def _read(self, whole: bytes) -> tuple[bytes, AnswerReads]:
        told = NO_READS
        if self._reads.json:
            told = told._replace(is_json=partial(comparable.whole, whole), form=partial(comparable.form, whole))
        if self._reads.labels:
            told = told._replace(form=partial(comparable.of_labels, whole))
        if not self._reads.ids:
            return whole, told
        return content.without_token_ids(whole), told._replace(ids=partial(content.token_ids, whole))

    def _end_early(self, error: PenstockError) -> None:
        """The client gets no answer, and the generated tokens are billed."""
        if isinstance(error, AnswerFiltered):  # the whole answer was judged on its way out
            self._frame.settle_with(error)
        elif not self._frame.is_over:
            self._watch.drop_source(_ended(error))

    def _stopped(self, error: PenstockError) -> None:
        """The waiting dispatcher raises the error, and after delivery the watch is closed."""


def _ended(error: PenstockError) -> Failed:
    kind = BudgetReached if isinstance(error, OverBudget) else LimitReached
    message = f"{error.message}; the answer was ended, and what it had generated is billed"
    return kind(message, reason=error.reason, retry_after_s=error.retry_after_s)
