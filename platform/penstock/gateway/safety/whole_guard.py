"""Judges a whole answer before its first byte leaves."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock.domain.serving.request import Api
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.safety import ends, tensors, texts
from penstock.gateway.safety.channel import MASK, Channel
from penstock.gateway.safety.judging import Judgement
from penstock.gateway.safety.texts import ALONE, TOKENS, Key

_LENGTH = b"content-length"
_Judged = list[tuple[Key, Channel, int]]
"""Each text's key, its channel, and its first character there."""


class WholeGuard(PassedReply):
    def __init__(self, reply: Reply, call: Admitted, judgement: Judgement) -> None:
        super().__init__(reply)
        self._api, self._echoed = call.request.api, call.request.body
        self._judgement = judgement
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._pieces: list[bytes] = []
        self._held: _Judged | None = None
        self._shown_all: asyncio.Event | None = None

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
        body = b"".join(self._pieces)
        try:
            found = self._judged(body)
        except ValueError:  # what can't be read can't be judged
            self._judgement.blocks = True
            self._show(msgspec.json.encode(ends.body(self._api, {}, ())), is_changed=True)
            return
        self._held = found
        self._judgement.on_news = self._go_on
        self._go_on()

    async def ended(self, answer: Answer) -> Answer:
        """Return the answer once a model has judged it."""
        if self._head is None or not self._judgement.compiled.confirms:
            return answer
        if self._held is not None:
            self._shown_all = asyncio.Event()
            await self._shown_all.wait()
        return self._judgement.told(answer)

    def _go_on(self) -> None:
        if self._held is None or any(channel.waits for _, channel, _ in self._held):
            return
        found, self._held, self._judgement.on_news = self._held, None, None
        body = b"".join(self._pieces)
        shown = self._edited(body, found)
        self._show(shown, is_changed=shown is not body)
        if self._shown_all is not None:
            self._shown_all.set()

    def _show(self, body: bytes, *, is_changed: bool) -> None:
        status, headers = self._head or (0, [])
        if is_changed:
            others = [(name, value) for name, value in headers if name.lower() != _LENGTH]
            headers = [*others, (_LENGTH, b"%d" % len(body))]
        self._reply.start(status, headers)
        self._reply.write(body)
        self._reply.finish()
        if self._judgement.blocks:
            self._judgement.stop()

    def _judged(self, body: bytes) -> _Judged:
        found = _Judged()

        def judge(key: Key, text: str, runs: bool = False) -> str:  # noqa: FBT001, FBT002
            channel = self._judgement.feed(key, text) if runs else self._judgement.alone(key, text)
            found.append((key, channel, channel.total - len(text)))
            return text

        if self._api is Api.INFER:
            for text in tensors.texts(body):
                judge(Key(0, ALONE), text)
        else:
            texts.walk(self._api, _object(body), judge, echoed=self._echoed)
        self._judgement.end()
        return found

    def _edited(self, body: bytes, found: _Judged) -> bytes:
        blocked = [key for key, channel, _ in found if channel.blocked_at is not None]
        if not blocked and not any(channel.is_masked(0, channel.total) for _, channel, _ in found):
            return body
        channels = iter(found)
        if self._api is Api.INFER:
            return tensors.edited(body, lambda text: _starred(next(channels)[1], text))
        decoded = _object(body)
        texts.walk(self._api, decoded, _shown(channels), echoed=self._echoed, drops=True)
        return msgspec.json.encode(ends.body(self._api, decoded, blocked) if blocked else decoded)


def _object(body: bytes) -> dict[str, Any]:
    decoded: Any = msgspec.json.decode(body)
    if not isinstance(decoded, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - a fault of the answer
    return decoded


def _shown(channels: Iterator[tuple[Key, Channel, int]]) -> Callable[[Key, str, bool], str]:
    over = set[int]()

    def shown(key: Key, text: str, runs: bool) -> str:  # noqa: FBT001
        del runs
        _, channel, start = next(channels)
        if key.choice in over:  # a stream would have ended before it
            return ""
        if channel.blocked_at is not None and key.kind != TOKENS:
            over.add(key.choice)
        last = len(text) if channel.blocked_at is None else max(0, channel.blocked_at - start)
        return channel.masked(text, start)[:last]

    return shown


def _starred(channel: Channel, text: str) -> str:
    """A tensor has no proper end: what a rule matches in one is masked, whatever the rule says."""
    end = len(text) if channel.blocked_at is None else channel.blocked_at
    return channel.masked(text, 0)[:end] + MASK * (len(text) - end)
