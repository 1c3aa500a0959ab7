"""How much adapters are used lately, which decides the one that gives way. Pure; times are the queue's seconds.

A use counts half as much after a minute, so an adapter that is asked for often outlives one that was asked for just
now and hardly ever: between least recently and least frequently used (LRFU, Lee et al., IEEE TC 50(12), 2001).
Trade-off: one that was much used and is no more gives way a little later than by recency alone.
"""

from penstock.domain.ids import VersionId

HALF_LIFE_S = 60.0
MOST_KNOWN = 1024
"""Of so many adapters the uses are remembered; whoever has used more of them has no habit worth knowing."""


class Uses:
    """Counts that fade. A count is kept as if all of it were of one moment, so that comparing two costs nothing."""

    def __init__(self) -> None:
        self._counts: dict[VersionId, float] = {}
        self._from = 0.0

    def use(self, adapter: VersionId, now: float) -> None:
        """Note a use."""
        weight = 2.0 ** ((now - self._from) / HALF_LIFE_S)
        if weight > 1e9 or len(self._counts) > MOST_KNOWN:  # noqa: PLR2004
            self._fade(now, weight)
            weight = 1.0
        self._counts[adapter] = self._counts.get(adapter, 0.0) + weight

    def of(self, adapter: VersionId) -> float:
        """Return a number that is larger for the more used of two adapters."""
        return self._counts.get(adapter, 0.0)

    def _fade(self, now: float, weight: float) -> None:
        """Count from now on; what has faded to next to nothing is forgotten, and all but the most used are."""
        kept = sorted(self._counts, key=self.of, reverse=True)[: MOST_KNOWN // 2]
        self._counts = {one: faded for one in kept if (faded := self._counts[one] / weight) > 1e-3}  # noqa: PLR2004
        self._from = now
