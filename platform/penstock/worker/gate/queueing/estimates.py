"""Estimates of an engine: its pace, predicted and corrected by measurement; its slowness and a request's stay,
measured.

Capacity is measured only while requests wait; other times can raise the estimate, not lower it.
"""

import math
from collections.abc import Callable

from penstock.worker.gate.queueing.constants import AS_PREDICTED_S, LOOK_S, REMEMBERED, SLOWNESS_HALF_LIFE_S


class ServiceRate:
    """Tokens of service per second of a full engine: the predicted rate times the measured part of it, averaged with a
    half-life.
    """

    def __init__(self, *, initial: float, half_life_s: float = 10.0) -> None:
        self._predicted: Callable[[], float] = lambda: initial
        self._half_life_s = half_life_s
        self._ratio = 1.0
        self._done = 0.0
        self._since: float | None = None
        self._is_full = True

    @property
    def per_s(self) -> float:
        return max(self._ratio * self._predicted(), 1.0)

    def predict(self, predicted: Callable[[], float]) -> None:
        """Measurements against the first guess are dropped."""
        self._predicted, self._ratio = predicted, 1.0

    def busy(self, now: float) -> None:
        if self._since is None:
            self._since, self._done, self._is_full = now, 0.0, True

    def idle(self, now: float) -> None:
        """Idle time must not count as slowness."""
        self._fold(now)
        self._since = None

    def did(self, cost: float, now: float, *, full: bool) -> None:
        """Count the engine's tokens of service; ``full`` while more work waits."""
        self._done += cost
        self._is_full = self._is_full and full
        if self._since is not None and now - self._since >= LOOK_S:
            self._fold(now)

    def _fold(self, now: float) -> None:
        if self._since is None or now <= self._since or self._done == 0.0:
            return
        span = now - self._since
        sample = self._done / span / self._predicted()
        keep = math.exp2(-span / self._half_life_s)
        if self._is_full or sample > self._ratio:
            self._ratio = keep * self._ratio + (1 - keep) * sample
        self._done, self._since, self._is_full = 0.0, now, True


class Slowness:
    """Measured over predicted seconds of recent first tokens, at least 1.0. Routing alone reads it: a prompt in the
    cache is quicker than predicted, and the engine no faster.
    """

    def __init__(self) -> None:
        self._took = self._predicted = self._at = 0.0

    def learn(self, took_s: float, predicted_s: float, now: float) -> None:
        kept = self._kept(now)
        self._took, self._predicted, self._at = kept * self._took + took_s, kept * self._predicted + predicted_s, now

    def ratio(self, now: float) -> float:
        kept = self._kept(now)
        return max(1.0, (kept * self._took + AS_PREDICTED_S) / (kept * self._predicted + AS_PREDICTED_S))

    def _kept(self, now: float) -> float:
        return math.exp2((self._at - now) / SLOWNESS_HALF_LIFE_S)


class Stay:
    """Seconds in the engine by expected cost; 0 until one was measured."""

    def __init__(self) -> None:
        self._seconds = self._cost = 0.0

    def learn(self, seconds: float, cost: float) -> None:
        self._seconds = REMEMBERED * self._seconds + seconds
        self._cost = REMEMBERED * self._cost + cost

    def of(self, cost: float) -> float:
        return cost * self._seconds / self._cost if self._cost else 0.0
