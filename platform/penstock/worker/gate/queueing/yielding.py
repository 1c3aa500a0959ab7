"""The slots that batch work may hold beside promised work, learned from late events. Pure.

An event is a promised request's first token, or a step that gave it another one. A late one takes a part of batch
work's slots, one in time gives a small part back, so that in the end the tolerated part is late (stochastic
approximation, Robbins and Monro 1951).

Trade-off: late events are needed to find the limit, and slots return only as batch answers end.
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.domain.serving.slo import TimedPromise
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import HEADROOM, LEARNING, MOST_ANTICIPATION_S

UNKNOWN: Final = math.inf
PROMISED: Final = Standing.FREE
"""Batch work yields to requests from this standing up; spare ones wait for batch work."""


class BatchHeld(NamedTuple):
    """The slots that batch work holds, and all slots of the engine."""

    slots: float
    most: float


class LearnedSlots:
    """The most slots of batch work beside which one kind of event is late no more often than tolerated."""

    def __init__(self) -> None:
        self.slots = UNKNOWN

    def learn(self, batch: BatchHeld, late_ratio: float, *, is_late: bool) -> None:
        """Take an event beside batch work; without any the event is no evidence.

        While batch work still holds more than was learned, late events are expected.
        """
        if not batch.slots:
            return
        factor = (1 - LEARNING) ** (is_late - late_ratio / HEADROOM)
        if not is_late and batch.slots + 1 > self.slots:
            self.slots = min(batch.most, self.slots * factor)
        elif is_late and batch.slots < self.slots + 1:
            self.slots = max(1.0, min(self.slots, batch.slots + 1) * factor)


_AT_LEAST = {least: tuple(one for one in Standing if one >= least) for least in Standing}


class Yielding:
    """One engine's batch work beside promised work. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.told: int | None = None
        """The autoscaler's bound; None for none."""
        self.first, self.each = LearnedSlots(), LearnedSlots()
        self._here = dict.fromkeys(Standing, 0)
        self._left_at = dict.fromkeys(Standing, -math.inf)
        self._step_at, self._stall_s = -math.inf, math.inf
        self._stalled_at = math.inf
        """The end of the last stall; infinite until the engine has made a further token: it may be cold."""

    def came(self, standing: Standing) -> None:
        self._here[standing] += 1

    def left(self, standing: Standing, now: float = -math.inf) -> None:
        """Count a request's end; without ``now`` it was refused."""
        self._here[standing] -= 1
        self._left_at[standing] = max(self._left_at[standing], now)

    def about_until(self, least: Standing = PROMISED) -> float:
        """Return the second until which requests of this standing or a better one are about: infinite while one is
        here.
        """
        until = -math.inf
        for standing in _AT_LEAST[least]:
            if self._here[standing]:
                return math.inf
            until = max(until, self._left_at[standing])
        return until + MOST_ANTICIPATION_S

    def bounds(self, now: float) -> dict[str, float]:
        """Return the bound on the slots of batch work by its reason: infinite if nothing is known, and all while no
        promised work is about.
        """
        is_about = now < self.about_until()
        told = UNKNOWN if self.told is None else max(1, self.told)
        found = {"ttft": self.first.slots, "itl": self.each.slots, "autoscaler": told}
        return found if is_about else dict.fromkeys(found, UNKNOWN)

    def slots(self, now: float) -> int | None:
        """Return the slots that batch work may hold now, at least 1; None for no bound."""
        least = min(self.bounds(now).values())
        return None if least == UNKNOWN else math.floor(least)

    def first_token(self, promise: TimedPromise, took_s: float, now: float, batch: BatchHeld) -> None:
        """Take a promised request's seconds to its first token; a stalled engine meanwhile is no evidence."""
        if promise.first_s and (not promise.each_s or now - took_s > self._stalled_at):
            self.first.learn(batch, promise.late_ratio, is_late=took_s > promise.first_s)

    def step(self, promise: TimedPromise, took_s: float, at: float, batch: Callable[[], BatchHeld]) -> None:
        """Take the step that ended at ``at`` and gave a request a further token; a promised one counts once a step.

        A step longer than the promised time to first token is a compile or a stopped process.
        """
        if promise.first_s:
            self._stall_s = promise.first_s
        if took_s >= self._stall_s or self._stalled_at == math.inf:
            self._stalled_at = at
        elif promise.each_s and at > self._step_at:
            self._step_at = at
            self.each.learn(batch(), promise.late_ratio, is_late=took_s > promise.each_s)
