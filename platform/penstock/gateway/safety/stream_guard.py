"""Judges a stream: an event leaves once no rule can match its text any more; a match that blocks ends the stream.

Each choice keeps the order of its events, and events without text leave after everything before them. Heartbeats pass
at once. What is held leaves, or ends the stream, when a bound of the pack is met, as the pack says.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from penstock.filters.hold import Compiled
from penstock.filters.pack import AtBound
from penstock.gateway.answers import content, sse
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.safety import ends, texts
from penstock.gateway.safety.channel import Channel
from penstock.gateway.safety.judging import Held, Judgement, Record, untold
from penstock.gateway.safety.texts import Key

_COMMENT = b":"

_FINAL = (b".done", b"event: content_block_stop")
"""Events of Responses and Messages after which a text does not go on."""


class _Part(NamedTuple):
    key: Key
    channel: Channel
    start: int
    end: int


class _Held(NamedTuple):
    event: bytes
    parts: tuple[_Part, ...]
    since: float

    @property
    def choice(self) -> int | None:
        return self.parts[0].key.choice if self.parts else None

    @property
    def is_safe(self) -> bool:
        return all(part.end <= part.channel.safe for part in self.parts)


class StreamGuard(PassedReply):
    def __init__(
        self,
        reply: Reply,
        call: Admitted,
        compiled: Compiled,
        record: Record,
        number: int = 0,
        tell: Callable[[Held], None] = untold,
    ) -> None:
        super().__init__(reply)
        self._tell, self._longest_s, self._most = tell, 0.0, 0
        self._bound: AtBound | None = None
        self._call = call
        self._api = call.request.api
        self._hold = compiled.policy.hold
        self._judgement = Judgement(call, compiled, record, number)
        self._queue: list[_Held] = []
        self._first: bytes = b""
        self._ended: set[int] = set()
        self._is_over = False
        self._has_masked = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        if self._is_over:
            return
        if data.startswith(_COMMENT) and data.count(sse.END) == 1:
            self._reply.write(data)
            return
        try:
            for event in sse.split(data):
                self._take(event)
        except ValueError:  # what can't be read can't be judged
            self._end()
            return
        self._go_on()

    def finish(self) -> None:
        if self._is_over:
            return
        self._judgement.end()
        self._go_on()
        if not self._is_over:
            self._close()
            self._reply.finish()

    def abort(self) -> None:
        self._close()
        self._reply.abort()

    def _take(self, event: bytes) -> None:
        data = sse.data_of(event)
        parts: tuple[_Part, ...] = ()
        if data.startswith(b"{"):
            parts = self._parts(event, data)
            self._first = self._first or data
        elif data == b"[DONE]":
            self._judgement.end()
        self._queue.append(_Held(event, parts, self._loop.time()))

    def _parts(self, event: bytes, data: bytes) -> tuple[_Part, ...]:
        if self._api in texts.OPENAI and sse.CHOICE not in event:
            return ()
        found = list[_Part]()
        for choice in content.added(self._api, data):
            for key, text in texts.of(choice, data):
                channel = self._judgement.channel(key)
                start = channel.total
                self._judgement.feed(channel, text)
                found.append(_Part(key, channel, start, channel.total))
            if choice.finish_reason is not None:
                self._judgement.end(choice.index)
                self._ended.add(choice.index)
        if self._api not in texts.OPENAI and any(mark in event.partition(b"\n")[0] for mark in _FINAL):
            self._judgement.end()
        return tuple(found)

    def _go_on(self) -> None:
        self._release()
        if self._judgement.blocks:
            self._end()
        elif self._queue and self._is_beyond():
            self._at_bound()

    def _release(self) -> None:
        out, kept, waiting = list[bytes](), list[_Held](), set[int | None]()
        now = self._loop.time()
        for held in self._queue:
            choice = held.choice
            is_free = not waiting if choice is None else choice not in waiting and None not in waiting
            if is_free and held.is_safe:
                out.append(self._shown(held))
                self._longest_s = max(self._longest_s, now - held.since)
            else:
                kept.append(held)
                waiting.add(choice)
        self._queue, self._most = kept, max(self._most, len(kept))
        if out:
            self._reply.write(b"".join(out))
        if kept and self._timer is None:
            self._timer = self._loop.call_at(kept[0].since + self._hold.seconds, self._late)

    def _shown(self, held: _Held) -> bytes:
        is_masked = any(part.channel.is_masked(part.start, part.end) for part in held.parts)
        self._has_masked |= is_masked
        starts = {part.key: part for part in held.parts}
        repeats = self._has_masked and self._api not in texts.OPENAI and not held.parts
        event = self._edited(held.event, starts) if is_masked or repeats else held.event
        for part in held.parts:
            part.channel.left(part.end)
        return event

    def _edited(self, event: bytes, parts: dict[Key, _Part]) -> bytes:
        def masked(key: Key, text: str) -> str:
            part = parts.get(key)
            return text if part is None else part.channel.masked(text, part.start)

        data = sse.data_of(event)
        if self._api in texts.OPENAI:
            changed: object = texts.edited(data, masked)
        elif parts:
            (key,) = parts
            changed = texts.repeated(msgspec.json.decode(data), lambda text: masked(key, text))
        elif data.startswith(b"{"):
            changed = texts.repeated(msgspec.json.decode(data), self._judgement.whole)
        else:
            return event
        return event.replace(data, msgspec.json.encode(changed), 1)

    # -- bounds and the end --------------------------------------------------------------

    def _is_beyond(self) -> bool:
        if len(self._queue) > self._hold.tokens:
            return True
        return any(part.channel.held > self._hold.characters for part in self._queue[0].parts)

    def _late(self) -> None:
        self._timer = None
        if self._is_over or not self._queue:
            return
        due = self._queue[0].since + self._hold.seconds
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._late)
        else:
            self._at_bound()

    def _at_bound(self) -> None:
        self._bound = self._hold.side
        if self._hold.side is AtBound.BLOCK:
            self._end()
            return
        for held in self._queue:
            for part in held.parts:
                part.channel.force()
        self._release()

    def _end(self) -> None:
        """Say the end in the API's own form, and free the engine's seat."""
        self._close()
        first: dict[str, Any] = msgspec.json.decode(self._first) if self._first else {}
        asked = self._call.request.body.get("n")
        choices = [at for at in range(asked if isinstance(asked, int) else 1) if at not in self._ended]
        prompt, output = self._call.prepared.prompt_tokens, self._call.lease.delivered
        usage = {"input_tokens": prompt, "output_tokens": output}
        told = self._call.request.include_usage
        self._reply.write(ends.events(self._api, first, choices or [0], usage, told=told))
        self._reply.finish()
        self._judgement.stop()

    def _close(self) -> None:
        if not self._is_over:
            self._tell(Held(self._longest_s, self._most, self._bound))
        self._is_over = True
        self._queue = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
