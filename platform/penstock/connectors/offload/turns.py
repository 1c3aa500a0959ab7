"""Whose work is next: start-time fair queueing over what each asks for. Pure.

A caller that floods waits behind itself; one that comes seldom starts at once. Who has nothing waiting is forgotten
when all is done, so nobody saves up turns.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class FairTurns(Generic[T]):
    """Items by whose they are; ``cost`` in any unit."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, T]] = []
        self._ends: dict[str, float] = {}
        self._now = 0.0
        self._order = count()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, who: str, cost: float, item: T) -> None:
        """Let an item wait for its turn."""
        start = max(self._now, self._ends.get(who, 0.0))
        self._ends[who] = start + cost
        heappush(self._waiting, (start, next(self._order), item))

    def take(self) -> T:
        """Return whose turn it is; something must wait."""
        self._now, _, item = heappop(self._waiting)
        if not self._waiting:
            self._ends = {who: end for who, end in self._ends.items() if end > self._now}
        return item
