"""The controller's decisions, in memory. Twin of `connectors.records.decisions`."""

from collections import deque
from collections.abc import Sequence

from penstock.domain.fleet.decision import Decided

MOST_KEPT = 2000


class MemoryDecisions:
    """The last of them, in order."""

    def __init__(self) -> None:
        """Start empty."""
        self._kept: deque[Decided] = deque(maxlen=MOST_KEPT)

    def note(self, decided: Sequence[Decided]) -> None:
        """Keep some more."""
        self._kept.extend(decided)

    def newest(self, limit: int) -> tuple[Decided, ...]:
        """Return the last ones, newest first."""
        return tuple(reversed(self._kept))[:limit]
