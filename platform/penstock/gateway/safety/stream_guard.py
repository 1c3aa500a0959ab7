"""Judges a stream: an event leaves once no rule can match its text any more; a match that blocks ends the stream.

Each text keeps its order, and what has no text leaves after its choice's texts before it; Responses and Messages keep
the order of all events. What is held leaves, or ends the stream, when a bound of the pack is met, as the pack says.
"""

import asyncio
import re
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from penstock.filters.pack import AtBound
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.relay import PassedReply, Reply
from penstock.gateway.safety import ends, texts
from penstock.gateway.safety.channel import Channel
from penstock.gateway.safety.forms import Forms
from penstock.gateway.safety.judging import Held, Judgement, untold
from penstock.gateway.safety.texts import EventTexts, Key

_EVENT = re.compile(rb"((?::[^\n]*\n)*)((?:event: ?[\w.]+\n)?data: ?([^\n]*))\n\n")
_COMMENTS = re.compile(rb"(?::[^\n]*\n)+\n")
_OURS = (b": waiting\n", b": penstock ")
"""Comments of the platform; an engine's own would leave unjudged."""
_DONE = EventTexts([], ends_text=True)


class _Part(msgspec.Struct, gc=False):
    key: Key
    channel: Channel
    start: int
    end: int


class _Spoken(NamedTuple):
    event: bytes
    said: EventTexts


class _Held(msgspec.Struct, gc=False):
    event: bytes
    parts: list[_Part]
    said: EventTexts
    since: float

    @property
    def is_safe(self) -> bool:
        for part in self.parts:  # noqa: SIM110 - a generator would cost more than the comparison
            if part.end > part.channel.safe:
                return False
        return True


_IS_SAFE = attrgetter("is_safe")


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
        return among.isdisjoint(choices) and self._keys.isdisjoint(part.key for part in held.parts)

    def keep(self, held: _Held) -> None:
        self._choices.update(held.said.choices)
        self._keys.update(part.key for part in held.parts)
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
        judgement.on_news = self._go_on
        self._queue: list[_Held] = []
        self._forms = Forms(self._api, call.request.body)
        self._end_of = ends.EndOf(call)
        self._thinking = set[int]()
        self._is_whole = self._is_over = False
        self._loop = asyncio.get_running_loop()
        self._shown_all: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._now = 0.0

    def write(self, data: bytes) -> None:
        if self._is_over:
            return
        self._now = self._loop.time()
        try:
            if (said := self._forms.known(data)) is not None:
                self._hold_back(data, said)
            else:
                self._take(data)
        except ValueError:  # what can't be read can't be judged
            self._end()
            return
        self._go_on()

    def finish(self) -> None:
        if self._is_over:
            return
        self._is_whole = True
        self._judgement.end()
        self._go_on()

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
            said = self._forms.known(event)
            if row and (said is None or said.texts[0][0] != row[0].said.texts[0][0]):
                self._hold_row(row)
                row = []
            if said is None:
                self._take_other(event)
            else:
                row.append(_Spoken(event, said))
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
        key = row[0].said.texts[0][0]
        text = "".join([said.texts[0][1] for _, said in row])
        self._note_reasoning(key)
        channel = self._judgement.feed(key, text)
        start = channel.total - len(text)
        for event, said in row:
            end = start + len(said.texts[0][1])
            self._queue.append(_Held(event, [_Part(key, channel, start, end)], said, self._now))
            start = end

    def _hold_back(self, event: bytes, said: EventTexts) -> None:
        parts: list[_Part] = []
        for key, text, runs in said.texts:
            if not runs:
                channel = self._judgement.alone(key, text)
            else:
                if self._thinking or key.kind != texts.CONTENT:
                    self._note_reasoning(key)
                channel = self._judgement.feed(key, text)
            end = channel.total
            parts.append(_Part(key, channel, end - len(text), end))
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
        self._release()
        if self._judgement.blocks:
            self._end()
        elif self._queue and self._is_beyond():
            self._at_bound()
        elif self._is_whole and not self._queue:
            self._close()
            self._reply.finish()

    def _release(self) -> None:
        queue, count = self._queue, 0
        for held in queue:
            if not held.is_safe:
                break
            count += 1
        out, kept = queue[:count], queue[count:]
        if len(kept) > 1 and any(map(_IS_SAFE, kept)):
            out += self._passing(kept)
        self._queue = kept
        if len(kept) > self._most:  # noqa: PLR1730 - for each token
            self._most = len(kept)
        if out:
            self._longest_s = max(self._longest_s, self._loop.time() - out[0].since)
            self._reply.write(self._shown(out[0]) if len(out) == 1 else b"".join(map(self._shown, out)))
        if kept and self._timer is None:
            self._timer = self._loop.call_at(kept[0].since + self._hold.seconds, self._late)

    def _passing(self, kept: list[_Held]) -> list[_Held]:
        """Take from the queue what may leave before those that are held."""
        order, every = _Order(is_strict=self._is_strict), kept.copy()
        kept.clear()
        passing = list[_Held]()
        for held in every:
            if held.is_safe and order.lets(held):
                passing.append(held)
            else:
                kept.append(held)
                order.keep(held)
        return passing

    def _shown(self, held: _Held) -> bytes:
        if held.said.ended or self._is_strict:
            self._end_of.left(held.event, held.said)
        if held.parts:
            self._call.timings.seen()
        for part in held.parts:
            if part.channel.masks:
                return self._masked(held)
        return held.event

    def _masked(self, held: _Held) -> bytes:
        if not any(part.channel.is_masked(part.start, part.end) for part in held.parts):
            return held.event
        data = sse.data_of(held.event)
        parts, changed = iter(held.parts), msgspec.json.decode(data)

        def masked(key: Key, text: str, runs: bool) -> str:  # noqa: FBT001
            del key, runs
            part = next(parts)
            return part.channel.masked(text, part.start)

        texts.walk(self._api, changed, masked, echoed=self._call.request.body, drops=True)
        for part in held.parts:
            part.channel.left(part.end)
        return held.event.replace(data, msgspec.json.encode(changed), 1)

    # -- bounds and the end --------------------------------------------------------------

    def _is_beyond(self) -> bool:
        if len(self._queue) > self._hold.tokens:
            return True
        for part in self._queue[0].parts:  # noqa: SIM110 - a generator would cost more than the comparison
            if part.channel.total - part.channel.safe > self._hold.characters:
                return True
        return False

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
        self._judgement.met_bound(min((part.start for part in self._queue[0].parts), default=0))
        if self._hold.side is AtBound.BLOCK:
            self._judgement.blocks = True
            self._end()
            return
        for held in self._queue:
            for part in held.parts:
                part.channel.force()
        self._go_on()

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
