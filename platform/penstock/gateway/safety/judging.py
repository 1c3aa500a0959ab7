"""One answer's judgement: its channels, what was found or is suspected, and the end of it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from penstock.domain.outcome import FinishReason, Outcome
from penstock.domain.serving.request_record import Refusal
from penstock.filters.errors import AnswerFiltered
from penstock.filters.hold import Compiled
from penstock.filters.pack import Action, Applied, AtBound, Found, Where
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.safety.channel import Channel, Hit
from penstock.gateway.safety.confirming import Confirming, Suspicions
from penstock.gateway.safety.texts import ALONE, CALL, TOKENS, Key


class Record(Protocol):
    def __call__(self, call: Admitted, match: "Match") -> None:
        """Count and keep one intervention; never raises."""
        ...


class Held(NamedTuple):
    """What one stream held back: its longest-held event, the most events at once, and the bound's side if met."""

    seconds: float
    events: int
    bound: AtBound | None


def untold(_: Held) -> None: ...


class Match(NamedTuple):
    applied: Applied
    stage: Where
    action: Action
    position: int
    number: int
    text: str = ""
    """Empty unless the tenant keeps texts of matches."""


class Judgement:
    """``blocks`` is true from the match on that ends the answer; ``on_news`` is called after a model's verdicts."""

    __slots__ = (
        "_call",
        "_confirming",
        "_doubts",
        "_keeps",
        "_number",
        "_record",
        "_told",
        "blocks",
        "channels",
        "compiled",
        "on_news",
    )

    def __init__(
        self, call: Admitted, compiled: Compiled, record: Record, confirming: Confirming, number: int = 0
    ) -> None:
        self._call, self.compiled, self._record, self._confirming = call, compiled, record, confirming
        self._number, self._keeps = number, call.principal.plan.matches_kept_s > 0
        self._told = set[tuple[int, str, int]]()
        self._doubts: Suspicions | None = None
        self.on_news: Callable[[], None] | None = None
        self.blocks = False
        self.channels: dict[Key, Channel] = {}

    def feed(self, key: Key, text: str) -> Channel:
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = self._made(key)
        if hits := channel.feed(text):
            self._stand(key, channel, hits)
        if self.compiled.confirms:
            self._ask(key, channel, is_last=False)
        return channel

    def alone(self, key: Key, text: str) -> Channel:
        """Judge a text that is whole; what repeats a running text is recorded once."""
        channel = self._made(key)
        self._finish(key, channel, text)
        return channel

    def _made(self, key: Key) -> Channel:
        return Channel(self.compiled, is_call=key.kind == CALL, keeps=self._keeps)

    def _finish(self, key: Key, channel: Channel, text: str) -> None:
        self._stand(key, channel, channel.feed(text, is_last=True))
        if self.compiled.confirms:
            self._ask(key, channel, is_last=True)

    def _ask(self, key: Key, channel: Channel, *, is_last: bool) -> None:
        for found, sentence in channel.questions(is_last=is_last):
            if self._doubts is None:
                self._doubts = Suspicions(self.compiled, self._confirming, self._news)
            self._doubts.ask(found.rule, sentence, partial(self._settle, key, channel, found))

    def _settle(self, key: Key, channel: Channel, found: Found, stands: bool) -> None:  # noqa: FBT001
        self._stand(key, channel, channel.settle(found, stands=stands))

    def _stand(self, key: Key, channel: Channel, hits: Sequence[Hit]) -> None:
        for applied, action, position, text in hits:
            told = key.choice, applied.rule.name, position
            if told not in self._told or key.kind not in (ALONE, CALL, TOKENS):
                self._record(self._call, Match(applied, Where.OUTPUT, action, position, self._number, text))
                self._number += 1
            self._told.add(told)
        self.blocks |= channel.blocked_at is not None

    def _news(self) -> None:
        if self.on_news is not None:
            self.on_news()

    def end(self, choice: int | None = None, kinds: Collection[str] = ()) -> None:
        """Judge what was held for its end: of one choice or all, of these kinds or all."""
        for key, channel in self.channels.items():
            if (choice is None or key.choice == choice) and (not kinds or key.kind in kinds) and channel.is_open:
                self._finish(key, channel, "")

    def met_bound(self, position: int) -> None:
        """Record that text was held for as long as its pack allows."""
        if (bound := self.compiled.policy.bound) is not None:
            self._record(self._call, Match(bound, Where.OUTPUT, bound.rule.action, position, self._number))
            self._number += 1

    def stop(self) -> None:
        """End the answer at its engine, with the outcome of a filtered one."""
        end: Callable[[AnswerFiltered], None] | None = self._call.lease.end_early
        if end is not None:
            end(AnswerFiltered())

    def told(self, answer: Answer) -> Answer:
        """Return an answer that was held beyond its engine's end, with what became of it."""
        seen = self._call.timings.visible_at
        if answer.ttft_s is not None and seen is not None:
            answer = replace(answer, visible_s=seen - self._call.received_at)
        if not self.blocks or answer.outcome is Outcome.FILTERED:
            return answer
        refusal, finish = Refusal.of(AnswerFiltered()), FinishReason.CONTENT_FILTER
        return replace(answer, outcome=Outcome.FILTERED, refusal=refusal, finish=finish, said=None)
