"""One circuit, of a worker, a zone or a version: closed → open → half-open → closed. Pure.

Trade-off: an open circuit sends nothing, then one real request as a probe, which may be retried elsewhere. Its open
time doubles with each opening up to a limit, and remembers for ``calm_s``: whoever flaps is asked more and more
seldom, and whoever is well again after a long outage waits up to ``most_open_s`` for its first request.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitSettings:
    """For how long to open."""

    open_s: float = 0.5
    most_open_s: float = 15.0
    jitter_ratio: float = 0.2
    probe_s: float = 10.0
    """A probe that nobody reported on is forgotten after this long."""
    calm_s: float = 60.0
    """After so long without trouble the next opening is a first one again."""


class Circuit:
    """Starts closed. Times are monotonic seconds."""

    __slots__ = ("_closed_at", "_openings", "_passed", "_probe_until", "_probes", "_settings", "is_open", "open_until")

    def __init__(self, settings: CircuitSettings) -> None:
        """Nothing has happened yet."""
        self._settings = settings
        self._openings = 0
        self._closed_at = 0.0
        self._probe_until = 0.0
        self._passed = 0
        self._probes = 1
        self.is_open = False
        self.open_until = 0.0

    def allows(self, now: float) -> bool:
        """Tell whether a request may be sent: closed, or half-open without a probe under way."""
        return not self.is_open or (now >= self.open_until and now >= self._probe_until)

    def sent(self, now: float) -> None:
        """A request goes out; where half-open it is the probe."""
        if self.is_open and now >= self.open_until:
            self._probe_until = now + self._settings.probe_s

    def trip(self, now: float, chance: random.Random, *, probes: int = 1) -> bool:
        """Open, or open again after a failed probe, until ``probes`` in a row succeed; False where it stands open."""
        self._passed, self._probe_until = 0, 0.0
        if self.is_open and now < self.open_until:
            return False
        if self.is_calm(now):
            self._openings = 0
        ours = self._settings
        wait_s = min(ours.most_open_s, ours.open_s * 2.0 ** min(self._openings, 16))
        self._openings += 1
        self._probes = probes
        self.is_open = True
        self.open_until = now + wait_s * (1.0 + chance.uniform(-1.0, 1.0) * ours.jitter_ratio)
        return True

    def passed(self, now: float) -> bool:
        """A request succeeded; True where that closed the circuit. What was under way when it opened says nothing."""
        if not self.is_open or now < self.open_until:
            return False
        self._passed += 1
        self._probe_until = 0.0
        if self._passed < self._probes:
            return False
        self.close(now)
        return True

    def is_calm(self, now: float) -> bool:
        """Tell whether it has been closed for so long that its past says nothing any more."""
        return not self.is_open and (not self._openings or now - self._closed_at > self._settings.calm_s)

    def close(self, now: float) -> None:
        """All is well, whoever knows that."""
        self.is_open = False
        self._closed_at = now
        self.open_until = self._probe_until = 0.0
