"""Decides when an engine counts as hung, from its counters and its processes' activity. Pure.

Without progress the tolerated seconds depend on the engine's activity:

* none over two readings: frozen or deadlocked, found after ``still_s``;
* work (a step on a slow machine, a template, a grammar): ``working_s``, or a multiple of the engine's usual step time;
* compiling: ``compiling_s``;
* unknown: like work.

Seconds in which the agent itself did not run (a suspended machine) do not count. Trade-off: an endless loop looks like
work.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from penstock.worker.engines.vitals import Vitals

BUSY_PART = 0.1
"""Part of one core that a process must use or wait for to count as working. A server that only answers the watchdog
uses a hundredth.
"""

FULL_PART = 0.8
"""Part of a core at which the single-threaded server may be the bottleneck that leaves its core process idle."""

STEPS = 20.0
"""The factor by which one step may exceed the engine's usual step time."""

_LEARNING = 0.2


class Doing(StrEnum):
    RESTING = "resting"
    """Idle, and the last probe was answered."""
    UNKNOWN = "unknown"
    NOTHING = "nothing"
    WORKING = "working"
    COMPILING = "compiling"


_WORDS = {
    Doing.UNKNOWN: "its activity is unknown",
    Doing.NOTHING: "it used no CPU",
    Doing.WORKING: "it computed",
    Doing.COMPILING: "it compiled",
}


def doing(before: Vitals | None, now: Vitals, elapsed_s: float, *, answers: bool) -> Doing:
    """Return the activity of the core's processes, or of the server's if the engine does not answer."""
    if now.compiles:
        return Doing.COMPILING
    if (now.core if answers else now.server).wants_core:
        return Doing.WORKING
    if before is None or not elapsed_s:
        return Doing.UNKNOWN
    was, is_now = (before.core, now.core) if answers else (before.server, now.server)
    if is_now.is_busy(was, elapsed_s, BUSY_PART):
        return Doing.WORKING
    if answers:
        starved = now.server.is_busy(before.server, elapsed_s, FULL_PART)  # of work, by a server that has no time
    else:
        starved = now.watcher.is_busy(before.watcher, elapsed_s, BUSY_PART)  # we are: it may have answered in time
    return Doing.UNKNOWN if starved else Doing.NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class StallLimits:
    still_s: float
    working_s: float
    compiling_s: float

    @classmethod
    def of(cls, still_s: float) -> Self:
        return cls(still_s=still_s, working_s=6.0 * still_s, compiling_s=30.0 * still_s)


class Watchdog:
    def __init__(self, patience: StallLimits, now: float) -> None:
        self._patience = patience
        self._marker: object = None
        self._looked_at = now
        self._seconds = dict.fromkeys(Doing, 0.0)
        self._step_s = 0.0

    def has_moved(self, marker: object) -> bool:
        """A marker of None means no answer."""
        return marker is not None and marker != self._marker

    def look(self, marker: object, did: Doing, now: float) -> None:
        """Take a changed ``marker`` as progress.

        Without it the time since the last reading, at most half of ``still_s``, is added to the activity ``did``.
        """
        elapsed_s = min(now - self._looked_at, self._patience.still_s / 2)
        self._looked_at = now
        if self.has_moved(marker):
            self._marker = marker
            self._step_s += _LEARNING * (self._seconds[Doing.WORKING] - self._step_s)
            self._seconds = dict.fromkeys(Doing, 0.0)
        else:
            self._seconds[did] += elapsed_s

    @property
    def silent_s(self) -> float:
        return sum(self._seconds.values())

    @property
    def verdict(self) -> str:
        """Return why the engine counts as hung; empty if it does not."""
        for did, most_s in self._most_s().items():
            if self._seconds[did] >= most_s:
                part = "" if self._seconds[did] == self.silent_s else f", for {self._seconds[did]:.1f} s of them"
                return f"no progress for {self.silent_s:.1f} s{part}: {_WORDS[did]}"
        return ""

    def _most_s(self) -> dict[Doing, float]:
        patience = self._patience
        working_s = min(patience.compiling_s, max(patience.working_s, STEPS * self._step_s))
        return {
            Doing.UNKNOWN: working_s,
            Doing.NOTHING: patience.still_s,
            Doing.WORKING: working_s,
            Doing.COMPILING: patience.compiling_s,
        }
