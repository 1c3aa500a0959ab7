"""Which workers to leave alone for a while: one circuit breaker per worker, closed → open → half-open → closed.

Trade-off: a worker that refuses connections is left at once, one that answers with errors after a few in a row, so a
single bad request can't eject anybody. While open nothing is sent; then a single probe (a real request, which may be
retried elsewhere) decides. Never all of a version's workers are ejected: with everything failing, trying is better
than refusing.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.domain.ids import WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When to open, and for how long."""

    failures: int = 3
    open_s: float = 0.5
    most_open_s: float = 15.0
    jitter_ratio: float = 0.2
    probe_s: float = 10.0
    """A probe that nobody reported on is forgotten after this long."""


class Breaker:
    """One worker's state."""

    __slots__ = ("_failures", "_openings", "_probe_until", "_settings", "open_until")

    def __init__(self, settings: BreakerSettings) -> None:
        """Start closed."""
        self._settings = settings
        self._failures = 0
        self._openings = 0
        self._probe_until = 0.0
        self.open_until = 0.0

    @property
    def is_closed(self) -> bool:
        """True while nothing is wrong."""
        return not self._openings

    def allows(self, now: float) -> bool:
        """Tell whether a request may be sent: closed, or half-open without a probe under way."""
        return not self._openings or (now >= self.open_until and now >= self._probe_until)

    def sent(self, now: float) -> None:
        """A request goes out; where half-open it is the probe."""
        if self._openings:
            self._probe_until = now + self._settings.probe_s

    def succeeded(self) -> None:
        """A worker answered: close."""
        self._failures = self._openings = 0
        self._probe_until = self.open_until = 0.0

    def failed(self, now: float, chance: random.Random, *, at_once: bool = False) -> bool:
        """Count a failure; True where it opened the breaker."""
        self._failures += 1
        self._probe_until = 0.0
        if now < self.open_until:
            return False
        if not (at_once or self._openings or self._failures >= self._settings.failures):
            return False
        wait = min(self._settings.most_open_s, self._settings.open_s * 2.0 ** min(self._openings, 16))
        self._openings += 1
        self.open_until = now + wait * (1.0 + chance.uniform(-1.0, 1.0) * self._settings.jitter_ratio)
        return True


class Breakers:
    """All workers of a gateway; forgets those that are closed."""

    def __init__(self, chance: random.Random, settings: BreakerSettings | None = None) -> None:
        """``chance`` jitters the open times, so that gateways don't probe together."""
        self._chance = chance
        self._settings = settings or BreakerSettings()
        self._open: dict[WorkerId, Breaker] = {}

    def ejected(self, workers: Sequence[WorkerId], now: float) -> frozenset[WorkerId]:
        """Return which of these to leave alone: never all of them, those that open soonest are kept."""
        if not self._open:
            return frozenset()
        out = [w for w in workers if w in self._open and not self._open[w].allows(now)]
        if len(out) == len(workers) and out:
            out.remove(min(out, key=lambda w: self._open[w].open_until))
        return frozenset(out)

    def sent(self, worker: WorkerId, now: float) -> None:
        """A request goes to this worker."""
        breaker = self._open.get(worker)
        if breaker is not None:
            breaker.sent(now)

    def succeeded(self, worker: WorkerId) -> None:
        """This worker answered."""
        self._open.pop(worker, None)

    def failed(self, worker: WorkerId, now: float, *, at_once: bool = False) -> bool:
        """This worker failed; True where it is left alone from now on."""
        breaker = self._open.get(worker)
        if breaker is None:
            breaker = self._open[worker] = Breaker(self._settings)
        return breaker.failed(now, self._chance, at_once=at_once)

    def forget(self, gone: Iterable[WorkerId]) -> None:
        """These workers are no more."""
        for worker in gone:
            self._open.pop(worker, None)

    def known(self) -> frozenset[WorkerId]:
        """Workers with a failure on their record."""
        return frozenset(self._open)
