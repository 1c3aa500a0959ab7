"""Judges a whole answer before its first byte leaves."""

import msgspec

from penstock.filters.hold import Compiled
from penstock.gateway.answers import content
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.safety import ends, texts
from penstock.gateway.safety.judging import Judgement, Record
from penstock.gateway.safety.texts import Key

_LENGTH = b"content-length"


class WholeGuard(PassedReply):
    def __init__(self, reply: Reply, call: Admitted, compiled: Compiled, record: Record, number: int = 0) -> None:
        super().__init__(reply)
        self._api = call.request.api
        self._judgement = Judgement(call, compiled, record, number)
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._pieces: list[bytes] = []

    @property
    def started(self) -> bool:
        return self._head is not None or self._reply.started

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._head = status, headers

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def finish(self) -> None:
        if self._head is None:
            self._reply.finish()
            return
        (status, headers), body = self._head, b"".join(self._pieces)
        judged = self._judged(body)
        if judged is not body:
            others = [(name, value) for name, value in headers if name.lower() != _LENGTH]
            headers = [*others, (_LENGTH, b"%d" % len(judged))]
        self._reply.start(status, headers)
        self._reply.write(judged)
        self._reply.finish()
        if self._judgement.blocks:
            self._judgement.stop()

    def _judged(self, body: bytes) -> bytes:
        judgement, is_masked = self._judgement, False
        try:
            choices = content.choices(self._api, body)
        except ValueError:  # what can't be read can't be judged
            judgement.blocks = True
            return msgspec.json.encode(ends.body(self._api, {}, ()))
        for choice in choices:
            for key, text in texts.of(choice, body):
                channel = judgement.channel(key)
                judgement.feed(channel, text, is_last=True)
                is_masked |= channel.is_masked(0, channel.total)
        if not is_masked and not judgement.blocks:
            return body
        if self._api in texts.OPENAI:
            answer = texts.edited(body, self._shown)
        else:
            shown = judgement.cut if judgement.blocks else judgement.whole
            answer = texts.repeated(msgspec.json.decode(body), shown)
        return msgspec.json.encode(ends.body(self._api, answer, judgement.blocked) if judgement.blocks else answer)

    def _shown(self, key: Key, text: str) -> str:
        channel = self._judgement.channels.get(key)
        if channel is None:
            return text
        end = len(text) if channel.blocked_at is None else channel.blocked_at
        return channel.masked(text, 0)[:end]
