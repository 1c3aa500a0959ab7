"""One worker's circuit: closed → open → half-open → closed. Pure.

A half-open circuit lets only probes through. Trade-off: the open time doubles with each opening up to a limit, and is
remembered for ``calm_s``.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitSettings:
    open_s: float = 0.5
    most_open_s: float = 15.0
    jitter_ratio: float = 0.2
    calm_s: float = 60.0
    """Seconds without failures after which the open time starts from its minimum again."""


USUAL = CircuitSettings()


class Circuit:
    __slots__ = ("_closed_at", "_openings", "_settings", "is_open", "probe_at")

    def __init__(self, settings: CircuitSettings) -> None:
        self._settings = settings
        self._openings = 0
        self._closed_at = 0.0
        self.is_open = False
        self.probe_at = 0.0
        """When it is half-open: the platform may ask."""

    def trip(self, now: float, chance: random.Random) -> None:
        """Open, or keep open after a failed probe, for twice the last time."""
        if self.is_calm(now):
            self._openings = 0
        ours = self._settings
        wait_s = min(ours.most_open_s, ours.open_s * 2.0 ** min(self._openings, 16))
        self._openings += 1
        self.is_open = True
        self.probe_at = now + wait_s * (1.0 + chance.uniform(-1.0, 1.0) * ours.jitter_ratio)

    def is_calm(self, now: float) -> bool:
        return not self.is_open and (not self._openings or now - self._closed_at > self._settings.calm_s)

    def close(self, now: float) -> None:
        self.is_open = False
        self._closed_at = now
        self.probe_at = 0.0
