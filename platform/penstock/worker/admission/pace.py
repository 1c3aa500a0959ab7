"""How fast the engine works, and so how long somebody will wait: measured, never configured."""

import math


class Pace:
    """Tokens of service per second while the engine is busy, as an average that forgets with a half-life."""

    def __init__(self, *, initial: float, half_life_s: float = 10.0) -> None:
        """Start from ``initial`` tokens of service per second (the warm-up's measurement)."""
        self._rate = initial
        self._half_life_s = half_life_s
        self._done = 0.0
        self._since: float | None = None

    @property
    def per_s(self) -> float:
        """The present estimate; never zero."""
        return max(self._rate, 1.0)

    def busy(self, now: float) -> None:
        """The engine has work from now on."""
        if self._since is None:
            self._since = now

    def idle(self, now: float) -> None:
        """The engine has nothing left: idle time must not count as slowness."""
        self._fold(now)
        self._since = None

    def did(self, cost: float, now: float) -> None:
        """The engine did so many tokens of service."""
        self._done += cost
        if self._since is not None and now - self._since >= FOLD_S:
            self._fold(now)

    def _fold(self, now: float) -> None:
        if self._since is None or now <= self._since or self._done == 0.0:
            return
        span = now - self._since
        keep = math.exp2(-span / self._half_life_s)
        self._rate = keep * self._rate + (1 - keep) * self._done / span
        self._done, self._since = 0.0, now


FOLD_S = 0.25
"""Shortest span that makes a sample."""


def wait_s(ahead_cost: float, share: float, pace: Pace) -> float:
    """Return the expected wait behind ``ahead_cost`` tokens of service when served at ``share`` of the pace."""
    return ahead_cost / (pace.per_s * max(share, 1e-3))
