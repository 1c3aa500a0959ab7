"""Time as an argument: policies take a ``Clock`` or plain seconds and never read the system's clock."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Protocol

DAY_S = 86_400
SLOW_S = 1.0
"""Seconds after which an answer's time of day is too old: a process that stood still reads it late."""


class Clock(Protocol):
    """The simulator implements both in virtual time."""

    def monotonic(self) -> float:
        """Seconds that never go backwards; origin arbitrary."""
        ...

    def now(self) -> float:
        """Seconds since the Unix epoch; may jump."""
        ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()


@dataclass(slots=True)
class HeardClock:
    """A clock with another machine's time of day, heard again and again; its own machine's until it was heard."""

    own: Clock = field(default_factory=SystemClock)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    _origin: float = 0.0

    def monotonic(self) -> float:
        return self.own.monotonic()

    def now(self) -> float:
        return self._origin + self.own.monotonic() if self.heard.is_set() else self.own.now()

    def hear(self, now: float, asked_at: float) -> None:
        """Take the time of day of an answer to what was asked at this monotonic second."""
        moment = self.own.monotonic()
        if self.heard.is_set() and moment - asked_at > SLOW_S:
            return
        self._origin = now - (asked_at + moment) / 2
        self.heard.set()
