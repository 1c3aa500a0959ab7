"""Which versions somebody waits for: told by gateways, kept in memory, forgotten soon after the last one said so.

Trade-off: nothing of it is stored, so a controller that begins to lead learns it within a second from gateways that
still hold requests, and never wakes a version for requests that are long gone.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId

KEPT_S = 3.0
"""Gateways repeat it each second: whom nobody has named for so long, nobody waits for."""
_MOST = 1000


class WantedSource(Protocol):
    """Where gateways say what they hold requests for."""

    async def run(self, on_wanted: Callable[[Wanted], None]) -> None:
        """Hand over each as it is told, until cancelled; while it can't be reached, nothing comes."""
        ...


class Demand:
    """What is waited for. Fits `control.loop.Demand`."""

    def __init__(self, clock: Clock, on_news: Callable[[], None] = lambda: None) -> None:
        """``on_news`` is called when a version begins to be wanted: the next tick should not wait."""
        self._clock, self._on_news = clock, on_news
        self._told: dict[VersionId, tuple[Wanted, float]] = {}

    def take(self, told: Wanted) -> None:
        """Note what a gateway says now."""
        now = self._clock.now()
        known = self._current(told.version, now)
        if known is None and len(self._told) >= _MOST:
            self.wanted()
            if len(self._told) >= _MOST:
                return
        self._told[told.version] = (replace(told, since=now if known is None else known.since), now)
        if known is None:
            self._on_news()

    def wanted(self) -> tuple[Wanted, ...]:
        """Return what is waited for now, who waits longest first."""
        now = self._clock.now()
        self._told = {version: told for version, told in self._told.items() if now - told[1] < KEPT_S}
        return tuple(sorted((one for one, _ in self._told.values()), key=lambda one: (one.since, one.version)))

    def _current(self, version: VersionId, now: float) -> Wanted | None:
        known = self._told.get(version)
        return known[0] if known is not None and now - known[1] < KEPT_S else None
