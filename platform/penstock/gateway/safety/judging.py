"""One answer's judgement: its channels, what was found, and the end of it."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.filters.errors import AnswerFiltered
from penstock.filters.hold import Compiled
from penstock.filters.pack import Action, Applied, AtBound, Where
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.channel import Channel
from penstock.gateway.safety.texts import CALL, Key


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

    __slots__ = ("_call", "_compiled", "_number", "_record", "blocks", "channels")

    def __init__(self, call: Admitted, compiled: Compiled, record: Record, number: int = 0) -> None:
        self._call, self._compiled, self._record = call, compiled, record
        self._number = number
        self.blocks = False
        self.channels: dict[Key, Channel] = {}

    def channel(self, key: Key) -> Channel:
        found = self.channels.get(key)
        if found is None:
            found = self.channels[key] = Channel(self._compiled, is_call=key.kind == CALL)
        return found

    def feed(self, channel: Channel, text: str, *, is_last: bool = False) -> None:
        for applied, action, position in channel.feed(text, is_last=is_last):
            self._number += 1
            self._record(self._call, Match(applied, Where.OUTPUT, action, position, self._number - 1))
        self.blocks |= channel.blocked_at is not None

    @property
    def blocked(self) -> set[int]:
        return {key.choice for key, channel in self.channels.items() if channel.blocked_at is not None}

    def end(self, choice: int | None = None) -> None:
        """Judge what was held for its end: of one choice, or of all."""
        for key, channel in self.channels.items():
            if choice is None or key.choice == choice:
                self.feed(channel, "", is_last=True)

    def stop(self) -> None:
        """End the answer at its engine, with the outcome of a filtered one."""
        end: Callable[[AnswerFiltered], None] | None = self._call.lease.end_early
        if end is not None:
            end(AnswerFiltered())

    def whole(self, text: str) -> str:
        """Return a text that repeats a channel's, masked as a whole."""
        return self._alone(text)[1]

    def cut(self, text: str) -> str:
        """Return it until the match that blocks."""
        channel, masked = self._alone(text)
        return masked if channel.blocked_at is None else masked[: channel.blocked_at]

    def _alone(self, text: str) -> tuple[Channel, str]:
        channel = Channel(self._compiled)
        for _ in channel.feed(text, is_last=True):
            pass
        return channel, channel.masked(text, 0)
