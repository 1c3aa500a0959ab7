"""One answer's judgement: its channels, what was found, and the end of it."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from penstock.filters.errors import AnswerFiltered
from penstock.filters.hold import Compiled
from penstock.filters.pack import Action, Applied, AtBound, Where
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.channel import Channel
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


class Judgement:
    """``blocks`` is true from the match on that ends the answer."""

    __slots__ = ("_call", "_compiled", "_number", "_record", "_told", "blocks", "channels")

    def __init__(self, call: Admitted, compiled: Compiled, record: Record, number: int = 0) -> None:
        self._call, self._compiled, self._record = call, compiled, record
        self._number = number
        self._told = set[tuple[int, str, int]]()
        self.blocks = False
        self.channels: dict[Key, Channel] = {}

    def feed(self, key: Key, text: str, *, is_last: bool = False) -> Channel:
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = Channel(self._compiled, is_call=key.kind == CALL)
        if found := channel.feed(text, is_last=is_last):
            self._tell(key, channel, found)
        return channel

    def alone(self, key: Key, text: str) -> Channel:
        """Judge a text that is whole; what repeats a running text is recorded once."""
        channel = Channel(self._compiled, is_call=key.kind == CALL)
        self._tell(key, channel, channel.feed(text, is_last=True))
        return channel

    def _tell(self, key: Key, channel: Channel, found: Sequence[tuple[Applied, Action, int]]) -> None:
        for applied, action, position in found:
            told = key.choice, applied.rule.name, position
            if told not in self._told or key.kind not in (ALONE, CALL, TOKENS):
                self._record(self._call, Match(applied, Where.OUTPUT, action, position, self._number))
                self._number += 1
            self._told.add(told)
        self.blocks |= channel.blocked_at is not None

    def end(self, choice: int | None = None, kinds: Collection[str] = ()) -> None:
        """Judge what was held for its end: of one choice or all, of these kinds or all."""
        for key, channel in self.channels.items():
            if (choice is None or key.choice == choice) and (not kinds or key.kind in kinds) and channel.held:
                self.feed(key, "", is_last=True)

    def met_bound(self, position: int) -> None:
        """Record that text was held for as long as its pack allows."""
        if (bound := self._compiled.policy.bound) is not None:
            self._record(self._call, Match(bound, Where.OUTPUT, bound.rule.action, position, self._number))
            self._number += 1

    def stop(self) -> None:
        """End the answer at its engine, with the outcome of a filtered one."""
        end: Callable[[AnswerFiltered], None] | None = self._call.lease.end_early
        if end is not None:
            end(AnswerFiltered())
