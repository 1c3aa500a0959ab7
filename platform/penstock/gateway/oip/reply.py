"""Translates a whole answer of the model's own API into the protocol's.

An unreadable answer becomes an ordinary error, since nothing was sent yet. A long answer is encoded in parts, so that
the event loop runs in between.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec

from penstock.domain.errors import PenstockError
from penstock.domain.models.tensors import HEAD_LENGTH
from penstock.gateway.calls.call import Call, Progress
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.listener.errors import JSON
from penstock.gateway.oip.json_answers import Written
from penstock.gateway.oip.nouns import InferAnswer, Parameter
from penstock.intake.types import Headers

ITEMS = "items"
_ENCODER = msgspec.json.Encoder()


def with_account(answer: InferAnswer, progress: Progress | None) -> InferAnswer:
    """Usage, stage times and degradations as parameters, unless it already has parameters."""
    return answer if answer.parameters or progress is None else replace(answer, parameters=_account(progress.call))


def _account(call: Call) -> dict[str, Parameter]:
    used = call.attempts.used
    said: dict[str, Parameter] = {}
    if used is not None and used.prompts:
        said = {"prompt_tokens": used.prompt_tokens, "output_tokens": used.output_tokens, ITEMS: used.prompts}
    stages = {stage: round(seconds * 1e3, 3) for stage, seconds in call.timings.seconds.items()}
    said["stages_ms"] = _ENCODER.encode(stages).decode()
    if call.degraded:
        said["degraded"] = ",".join(call.degraded)
    return said


Translate = Callable[[bytes, str], Written]
"""Takes an answer's bytes and its version; returns the translation to send, or raises."""
_TURN_BYTES = 64 << 10
"""Bytes written before the event loop runs other tasks: less than 1 ms. A shorter answer is sent at once."""
_OWN = frozenset({b"content-type", b"content-length"})
_BINARY = (b"content-type", b"application/octet-stream")
_HEAD_LENGTH = HEAD_LENGTH.encode()


class TranslatedReply(PassedReply):
    def __init__(self, reply: Reply, translate: Translate, fail: Callable[[PenstockError], None]) -> None:
        super().__init__(reply)
        self._translate, self._fail = translate, fail
        self._head: tuple[int, Headers] | None = None
        self._pieces: list[bytes] = []
        self._written: Written | None = None
        self._json: list[bytes] = []

    @property
    def started(self) -> bool:
        return self._head is not None or self._written is not None or self._reply.started

    def start(self, status: int, headers: Headers) -> None:
        self._head = status, headers

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def finish(self) -> None:
        """``complete`` sends the rest of a long answer."""
        if self._head is None:
            self._reply.finish()
            return
        version = dict(self._head[1]).get(b"x-penstock-version", b"").decode()
        try:
            written = self._translate(b"".join(self._pieces), version)
        except PenstockError as error:
            self._head = None
            self._fail(error)
            return
        finally:
            self._pieces = []
        self._write(written)

    async def complete(self) -> None:
        """Encode and send the rest while the client is connected."""
        try:
            while (written := self._written) is not None and not self._reply.gone:
                await asyncio.sleep(0)
                self._write(written)
        except asyncio.CancelledError:
            self._reply.abort()
            raise

    def _write(self, written: Written) -> None:
        """Encode for one iteration of the event loop; send after the last part."""
        self._written, size = written, 0
        for part in written.json:
            self._json.append(part)
            size += len(part)
            if size >= _TURN_BYTES:
                return
        head, self._head, self._written = self._head, None, None
        if head is not None:
            self._send(*head, written.blobs)

    def _send(self, status: int, headers: Headers, blobs: list[memoryview]) -> None:
        json, self._json = b"".join(self._json), []
        own: Headers = [_BINARY, (_HEAD_LENGTH, b"%d" % len(json))] if blobs else [JSON]
        size = len(json) + sum(map(len, blobs))
        kept = [header for header in headers if header[0] not in _OWN]
        self._reply.start(status, [*own, (b"content-length", b"%d" % size), *kept])
        for piece in (json, *blobs):
            self._reply.write(bytes(piece))
        self._reply.finish()
