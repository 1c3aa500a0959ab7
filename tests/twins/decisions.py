"""The controller's decisions, in memory. Twin of `connectors.records.decisions`."""

from collections import deque
from collections.abc import Sequence

from penstock.domain.fleet.decision import Decided

MOST_KEPT = 2000


class MemoryDecisions:
    """The last of them, in order."""

    def __init__(self) -> None:
        self._kept: deque[Decided] = deque(maxlen=MOST_KEPT)

    def note(self, decided: Sequence[Decided]) -> None:
        self._kept.extend(decided)

    def newest(self, limit: int) -> tuple[Decided, ...]:
        return tuple(reversed(self._kept))[:limit]
