"""Judges a whole answer before its first byte leaves."""

from typing import Any

import msgspec

from penstock.domain.serving.request import Api
from penstock.filters.hold import Compiled
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.safety import ends, tensors, texts
from penstock.gateway.safety.channel import MASK, Channel
from penstock.gateway.safety.judging import Judgement, Record
from penstock.gateway.safety.texts import ALONE, TOKENS, Key

_LENGTH = b"content-length"


class WholeGuard(PassedReply):
    def __init__(self, reply: Reply, call: Admitted, compiled: Compiled, record: Record, number: int = 0) -> None:
        super().__init__(reply)
        self._api, self._echoed = call.request.api, call.request.body
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
        try:
            judged = self._tensors(body) if self._api is Api.INFER else self._judged(body)
        except ValueError:  # what can't be read can't be judged
            self._judgement.blocks = True
            judged = msgspec.json.encode(ends.body(self._api, {}, ()))
        if judged is not body:
            others = [(name, value) for name, value in headers if name.lower() != _LENGTH]
            headers = [*others, (_LENGTH, b"%d" % len(judged))]
        self._reply.start(status, headers)
        self._reply.write(judged)
        self._reply.finish()
        if self._judgement.blocks:
            self._judgement.stop()

    def _judged(self, body: bytes) -> bytes:
        decoded: Any = msgspec.json.decode(body)
        if not isinstance(decoded, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 - a fault of the answer
        found = list[tuple[Key, Channel]]()

        def judge(key: Key, text: str, runs: bool) -> str:  # noqa: FBT001
            del runs
            found.append((key, self._judgement.alone(key, text)))
            return text

        texts.walk(self._api, decoded, judge, echoed=self._echoed)
        blocked = [key for key, channel in found if channel.blocked_at is not None]
        if not blocked and not any(channel.is_masked(0, channel.total) for _, channel in found):
            return body
        channels, over = iter(found), set[int]()

        def shown(key: Key, text: str, runs: bool) -> str:  # noqa: FBT001
            del runs
            channel = next(channels)[1]
            if key.choice in over:  # a stream would have ended before it
                return ""
            if channel.blocked_at is not None and key.kind != TOKENS:
                over.add(key.choice)
            return channel.masked(text, 0)[: channel.blocked_at]

        texts.walk(self._api, decoded, shown, echoed=self._echoed, drops=True)
        return msgspec.json.encode(ends.body(self._api, decoded, blocked) if blocked else decoded)

    def _tensors(self, body: bytes) -> bytes:
        """A tensor has no proper end: what a rule matches in one is masked, whatever the rule says."""
        return tensors.edited(body, self._starred)

    def _starred(self, text: str) -> str:
        channel = self._judgement.alone(Key(0, ALONE), text)
        end = len(text) if channel.blocked_at is None else channel.blocked_at
        return channel.masked(text, 0)[:end] + MASK * (len(text) - end)
