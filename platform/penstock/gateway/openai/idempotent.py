"""Requests with an ``Idempotency-Key``: the first is answered and recorded, later ones get the same bytes (A8).

It runs before the pipeline: a replay draws on no limit, costs nothing and has no ledger row. Only complete answers are
kept; a refused, broken or cancelled one frees its key for a waiting request.

Trade-off: an engine works for a caller that may never come back, to the bound that the caller set.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import msgspec

from penstock.domain.errors import (
    ClientGone,
    Conflict,
    DeadlineInQueue,
    Evicted,
    IdempotencyMismatch,
    OverLimit,
    ReaderTooSlow,
    StreamBroken,
)
from penstock.domain.ids import RequestId
from penstock.domain.serving.idempotency import AnswerStore, Claim, Piece, RecordKey
from penstock.domain.serving.report import Report
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.tenancy.tenant import Principal
from penstock.formats.report import decode, encode
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import Reply
from penstock.gateway.openai.recorder import MAX_ANSWER_BYTES, AnswerRecorder, RecordedReply
from penstock.gateway.openai.services import Corridor
from penstock.intake.types import Headers
from penstock.lateness.awake import timeout

CLAIMS = 4
"""Attempts to claim a key after earlier answers broke off."""
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Use(StrEnum):
    FIRST = "first"
    REPLAYED = "replayed"
    JOINED = "joined"
    CONFLICTING = "conflicting"


_FOLLOWS = {Claim.SAME: Use.REPLAYED, Claim.GROWING: Use.JOINED}


def _uncounted(_: Use) -> None: ...


def _unnoted(_: Call, original: RequestId) -> None: ...


@dataclass(frozen=True, slots=True)
class Once:
    """A follower that reads nothing for ``stall_s`` is disconnected."""

    corridor: Corridor
    answers: AnswerStore
    stall_s: float = 30.0
    max_bytes: int = MAX_ANSWER_BYTES
    count: Callable[[Use], None] = _uncounted
    note: Callable[[Call, RequestId], None] = _unnoted

    def serve(self, progress: Progress, reply: Reply) -> Coroutine[object, object, None]:
        """A key that may not use the model is refused by the pipeline."""
        call, request = progress.call, progress.call.request
        if not request.idempotency_key or not call.principal.may_use(request.model):
            return self.corridor.serve(progress, reply)
        return self._once(progress, reply)

    async def is_recorded(self, who: Principal, idempotency_key: str) -> bool:
        return await self.answers.has(record_key(who, idempotency_key))

    async def _once(self, progress: Progress, reply: Reply) -> None:
        call = progress.call
        key = record_key(call.principal, call.request.idempotency_key)
        print_of_body = fingerprint(call.request)
        for _ in range(CLAIMS):
            claim = await self.answers.claim(key, print_of_body)
            if claim is Claim.OTHER:
                self.count(Use.CONFLICTING)
                raise IdempotencyMismatch(param="idempotency-key")
            if claim is Claim.FULL:
                raise OverLimit("too many answers with idempotency keys are being generated", retry_after_s=1.0)
            if claim is Claim.MINE:
                self.count(Use.FIRST)
                await self._record(key, progress, reply)
                return
            follower = _Follower(call, reply, self.stall_s)
            if await self._repeat(key, call, reply, follower):
                self.count(_FOLLOWS[claim])
                self.note(call, follower.original)
                return
        raise Evicted("earlier requests with this idempotency key ended without a complete answer", retry_after_s=1.0)

    async def _record(self, key: RecordKey, progress: Progress, reply: Reply) -> None:
        call = progress.call
        recorder = AnswerRecorder(
            self.answers, key, call.request.id, self.max_bytes, call.principal.plan.answers_kept_s
        )
        try:
            await self.corridor.serve(progress, RecordedReply(reply, recorder, partial(_used, call)))
        finally:
            answer = progress.answer
            await recorder.close(keeps=answer is not None and answer.outcome.is_answer and reply.started)

    async def _repeat(self, key: RecordKey, call: Call, reply: Reply, follower: "_Follower") -> bool:
        """Return False if the record broke off before its first byte."""
        copying = asyncio.create_task(follower.copy(self.answers, key))

        def stop() -> None:
            copying.cancel()

        reply.watch(on_gone=stop, on_pause=follower.room.clear, on_resume=follower.room.set)
        if reply.gone:
            stop()
        try:
            async with asyncio.timeout(call.request.deadline_s or None):
                await copying
        except Conflict as error:
            if reply.started:
                raise StreamBroken("the first answer with this idempotency key broke off") from error
            return False
        except TimeoutError as error:
            raise DeadlineInQueue from error
        except asyncio.CancelledError:
            if reply.gone:
                raise ClientGone from None
            raise
        return True


class _Follower:
    """Copies at the reader's pace, and the record's usage into the call."""

    def __init__(self, call: Call, reply: Reply, stall_s: float) -> None:
        self._call, self._reply = call, reply
        self._stall_s = stall_s
        self.original = RequestId("")
        self.room = asyncio.Event()
        self.room.set()

    async def copy(self, answers: AnswerStore, key: RecordKey) -> None:
        reply = self._reply
        async for piece in answers.follow(key):
            if piece.status:
                if reply.started:
                    raise Conflict("another answer took the record's place")
                self.original = RequestId(piece.request)
                self._call.attempts.used = decode(piece.used).used or self._call.attempts.used
                reply.start(piece.status, _replayed(piece))
            if piece.data:
                await self._until_room()
                reply.write(piece.data)
        reply.finish()

    async def _until_room(self) -> None:
        with suppress(TimeoutError):
            async with timeout(self._stall_s):
                await self.room.wait()
                return
        self._reply.abort()
        raise ReaderTooSlow


def record_key(who: Principal, idempotency_key: str) -> RecordKey:
    """Tenants' keys can't collide, and the caller's text stays out of the store."""
    name = hashlib.sha256(f"{who.tenant}\x1f{idempotency_key}".encode()).hexdigest()
    return RecordKey(who.tenant, name)


def fingerprint(request: InferenceRequest) -> str:
    if request.is_large:
        return request.digest
    return hashlib.sha256(request.api.encode() + b"\x1f" + _ENCODER.encode(request.body)).hexdigest()


def _used(call: Call) -> bytes:
    used = call.attempts.used
    return encode(Report(used=used)) if used is not None and used.prompts else b""


def _replayed(head: Piece) -> Headers:
    headers = [(b"content-type", head.content_type.encode()), (b"idempotency-replayed", b"true")]
    if head.version:
        headers.append((b"x-penstock-version", head.version.encode()))
    if head.rule:
        headers.append((b"x-penstock-auto", head.rule.encode()))
    if head.content_type.startswith("text/event-stream"):
        headers += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
    return headers
