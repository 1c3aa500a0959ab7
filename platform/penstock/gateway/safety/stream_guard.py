"""Judges a stream: an event leaves once no rule can match its text any more; a match that blocks ends the stream.

Each text keeps its order, and what has no text leaves after its choice's texts before it; Responses and Messages keep
the order of all events. What is held leaves, or ends the stream, when a bound of the pack is met, as the pack says.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from penstock.filters.pack import AtBound
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.safety import ends, texts
from penstock.gateway.safety.channel import Channel
from penstock.gateway.safety.forms import Forms, Known
from penstock.gateway.safety.judging import Held, Judgement, untold
from penstock.gateway.safety.texts import CONTENT, EventTexts, Key

_EVENT = re.compile(rb"((?::[^\n]*\n)*)((?:event: ?[\w.]+\n)?data: ?([^\n]*))\n\n")
_COMMENTS = re.compile(rb"(?::[^\n]*\n)+\n")
_OURS = (b": waiting\n", b": penstock ")
"""Comments of the platform; an engine's own would leave unjudged."""
_DONE = EventTexts([], ends_text=True)


_Part = tuple[Key, Channel, int, int]
"""A text, and its first and last character; a class would cost more than to judge it."""


class _Spoken(NamedTuple):
    event: bytes
    known: Known


class _Held(msgspec.Struct, gc=False):
    event: bytes
    parts: Sequence[_Part]
    said: EventTexts
    since: float

    @property
    def waits_for(self) -> Channel | None:
        for _, channel, _, end in self.parts:
            if end > channel.safe:
                return channel
        return None


_WAITS_FOR = attrgetter("waits_for")


class _Order:
    """What stays in the queue, and whether a later event may pass it."""

    def __init__(self, *, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._keys, self._choices, self._barred = set[Key](), set[int](), set[int]()
        self._bars_all = False

    def lets(self, held: _Held) -> bool:
        choices = held.said.choices
        if self._is_strict or self._bars_all or not choices:
            return False
        among = self._barred if held.parts and not held.said.ended else self._choices
        return among.isdisjoint(choices) and self._keys.isdisjoint(key for key, *_ in held.parts)

    def keep(self, held: _Held) -> None:
        self._choices.update(held.said.choices)
        self._keys.update(key for key, *_ in held.parts)
        if not held.parts:
            self._barred.update(held.said.choices)
            self._bars_all |= not held.said.choices


class StreamGuard(PassedReply):
    def __init__(
        self,
        reply: Reply,
        call: Admitted,
        judgement: Judgement,
        tell: Callable[[Held], None] = untold,
    ) -> None:
        super().__init__(reply)
        self._tell, self._longest_s, self._most = tell, 0.0, 0
        self._bound: AtBound | None = None
        self._call = call
        self._api = call.request.api
        self._is_strict = self._api not in texts.OPENAI
        self._hold = judgement.compiled.policy.hold
        self._judgement = judgement
        judgement.on_news = self._heard
        self._queue: list[_Held] = []
        self._forms = Forms(self._api, call.request.body)
        self._end_of = ends.EndOf(call)
        self._thinking = set[int]()
        self._is_whole = self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._shown_all: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._now, self._is_seen = 0.0, False

    def write(self, data: bytes) -> None:
        if self._is_over:
            return
        self._now = self._clock()
        try:
            known = self._forms.known(data)
            if known is None:
                self._take(data)
            else:
                key, text, said = known
                end = (channel := self._fed(key, text)).total
                self._queue.append(_Held(data, ((key, channel, end - len(text), end),), said, self._now))
        except ValueError:  # what can't be read can't be judged
            self._end()
            return
        self._go_on()

    def _heard(self) -> None:
        self._now = self._clock()
        self._go_on()

    def finish(self) -> None:
        if self._is_over:
            return
        self._is_whole = True
        self._judgement.end()
        self._heard()

    async def ended(self, answer: Answer) -> Answer:
        """Return the answer once a model has judged what is held of it."""
        if not self._is_whole or not self._judgement.compiled.confirms:
            return answer
        if not self._is_over:
            self._shown_all = asyncio.Event()
            await self._shown_all.wait()
        return self._judgement.told(answer)

    def abort(self) -> None:
        self._close()
        self._reply.abort()

    def _take(self, data: bytes) -> None:
        """Judge events in a row that go on with one text together."""
        row: list[_Spoken] = []
        for event in sse.split(data):
            known = self._forms.known(event)
            if row and (known is None or known[0] != row[0].known[0]):
                self._hold_row(row)
                row = []
            if known is None:
                self._take_other(event)
            else:
                row.append(_Spoken(event, known))
        if row:
            self._hold_row(row)

    def _take_other(self, event: bytes) -> None:
        found = _EVENT.fullmatch(event)
        if found is None:
            self._comment(event)
            return
        comments, told, data = found.groups()
        if comments and not comments.startswith(_OURS):
            event = told + sse.END
        if data == b"[DONE]":
            said = _DONE
        else:
            said = self._forms.read(event, data)
            self._end_of.saw(said, data)
        self._hold_back(event, said)

    def _hold_row(self, row: list[_Spoken]) -> None:
        text = "".join([known[1] for _, known in row])
        channel = self._fed(row[0].known[0], text)
        start = channel.total - len(text)
        for event, (key, piece, said) in row:
            end = start + len(piece)
            self._queue.append(_Held(event, ((key, channel, start, end),), said, self._now))
            start = end

    def _fed(self, key: Key, text: str) -> Channel:
        if self._thinking or key.kind != CONTENT:
            self._note_reasoning(key)
        return self._judgement.feed(key, text)

    def _hold_back(self, event: bytes, said: EventTexts) -> None:
        parts: list[_Part] = []
        for key, text, runs in said.texts:
            channel = self._fed(key, text) if runs else self._judgement.alone(key, text)
            end = channel.total
            parts.append((key, channel, end - len(text), end))
        for choice in said.ended:
            self._judgement.end(choice)
        if said.ends_text:
            self._judgement.end()
        self._queue.append(_Held(event, parts, said, self._now))

    def _comment(self, event: bytes) -> None:
        if not _COMMENTS.fullmatch(event):
            raise ValueError("no event of a JSON object")
        if event.startswith(_OURS):
            self._reply.write(event)

    def _note_reasoning(self, key: Key) -> None:
        """What follows a reasoning must not wait for its last word."""
        if key.kind in texts.REASONINGS:
            self._thinking.add(key.choice)
        elif key.choice in self._thinking and key.kind != texts.TOKENS:
            self._thinking.remove(key.choice)
            self._judgement.end(key.choice, texts.REASONINGS)

    def _go_on(self) -> None:
        if self._is_over:
            return
        is_beyond = self._release()
        if self._judgement.blocks:
            self._end()
        elif is_beyond:
            self._at_bound()
        elif self._is_whole and not self._queue:
            self._close()
            self._reply.finish()

    def _release(self) -> bool:
        """Return whether what stays is beyond a bound."""
        queue, count, channel = self._queue, 0, None
        for held in queue:
            if (channel := held.waits_for) is not None:
                break
            count += 1
        out = queue[:count]
        del queue[:count]
        if len(queue) > 1 and None in map(_WAITS_FOR, queue):
            out += self._passing(queue)
        if (kept := len(queue)) > self._most:
            self._most = kept
        if out:
            self._send(out)
        if channel is None:
            return False
        if self._timer is None:
            self._timer = self._loop.call_at(queue[0].since + self._hold.seconds, self._late)
        return kept > self._hold.tokens or channel.total - channel.safe > self._hold.characters

    def _send(self, out: Sequence[_Held]) -> None:
        if (held_s := self._now - out[0].since) > self._longest_s:
            self._longest_s = held_s
        self._reply.write(self._shown(out[0]) if len(out) == 1 else b"".join(map(self._shown, out)))

    def _passing(self, kept: list[_Held]) -> list[_Held]:
        """Take from the queue what may leave before those that are held."""
        order, every = _Order(is_strict=self._is_strict), kept.copy()
        kept.clear()
        passing = list[_Held]()
        for held in every:
            if held.waits_for is None and order.lets(held):
                passing.append(held)
            else:
                kept.append(held)
                order.keep(held)
        return passing

    def _shown(self, held: _Held) -> bytes:
        if held.said.ended or self._is_strict:
            self._end_of.left(held.event, held.said)
        if held.parts and not self._is_seen:
            self._is_seen = True
            self._call.timings.seen()
        for _, channel, _, _ in held.parts:
            if channel.masks:
                return self._masked(held)
        return held.event

    def _masked(self, held: _Held) -> bytes:
        if not any(channel.is_masked(start, end) for _, channel, start, end in held.parts):
            return held.event
        data = sse.data_of(held.event)
        parts, changed = iter(held.parts), msgspec.json.decode(data)

        def masked(key: Key, text: str, runs: bool) -> str:  # noqa: FBT001
            del key, runs
            _, channel, start, _ = next(parts)
            return channel.masked(text, start)

        texts.walk(self._api, changed, masked, echoed=self._call.request.body, drops=True)
        for _, channel, _, end in held.parts:
            channel.left(end)
        return held.event.replace(data, msgspec.json.encode(changed), 1)

    # -- bounds and the end --------------------------------------------------------------

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
        self._judgement.met_bound(min((start for _, _, start, _ in self._queue[0].parts), default=0))
        if self._hold.side is AtBound.BLOCK:
            self._judgement.blocks = True
            self._end()
            return
        for held in self._queue:
            for _, channel, _, _ in held.parts:
                channel.force()
        self._heard()

    def _end(self) -> None:
        """Say the end in the API's own form, and free the engine's seat."""
        self._close()
        self._reply.write(self._end_of.events())
        self._reply.finish()
        self._judgement.stop()

    def _close(self) -> None:
        if not self._is_over:
            self._tell(Held(self._longest_s, self._most, self._bound))
        self._is_over = True
        self._queue, self._judgement.on_news = [], None
        if self._shown_all is not None:
            self._shown_all.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
