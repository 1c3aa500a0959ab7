"""Versions with requests that gateways hold until a worker is awake; in memory, expiring soon after the last report.

Trade-off: nothing is stored. A new leader learns them within a second from gateways that still hold requests, and never
wakes a version for requests that are gone.
"""

from collections.abc import Callable
from dataclasses import replace

from penstock.domain.clock import Clock
from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId

KEPT_S = 3.0
"""Gateways repeat their report each second: a version not named for this long is not waited for."""
_MOST = 1000


class Demand:
    """Versions with held requests; implements `control.loop.Demand`.

    ``awake``: a clock of the seconds in which this process ran; without it no second is excluded.
    """

    def __init__(self, clock: Clock, on_news: Callable[[], None] = lambda: None, awake: Clock | None = None) -> None:
        self._clock = clock
        self._awake = awake or clock
        self._on_news = on_news
        self._told: dict[VersionId, tuple[Wanted, float]] = {}

    def take(self, told: Wanted) -> None:
        now, heard_at = self._clock.now(), self._awake.monotonic()
        known = self._current(told.version, heard_at)
        if known is None and len(self._told) >= _MOST:
            self.wanted()
            if len(self._told) >= _MOST:
                return
        self._told[told.version] = (replace(told, since=now if known is None else known.since), heard_at)
        if known is None:
            self._on_news()

    def wanted(self) -> tuple[Wanted, ...]:
        now = self._awake.monotonic()
        self._told = {version: told for version, told in self._told.items() if now - told[1] < KEPT_S}
        return tuple(sorted((one for one, _ in self._told.values()), key=lambda one: (one.since, one.version)))

    def _current(self, version: VersionId, now: float) -> Wanted | None:
        known = self._told.get(version)
        return known[0] if known is not None and now - known[1] < KEPT_S else None
