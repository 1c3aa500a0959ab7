"""The rank of a request among the incumbent's of the last minute that were like it.

"The same traffic" is neither the same load nor the same prompts: an idle candidate looks fast, a tenant with long
prompts makes its version look slow. So requests are compared within cells of prompt length and of company
(``domain/arms.py``).
Trade-off: a request without company in its cell says nothing, however many there are.
"""

from collections import deque
from collections.abc import Iterable

from penstock.domain.arms import BUCKETS, Cell, Times

SPAN_S = 60
DIGITS = 2
"""Of a rank: a hundredth is far below any tolerance, and few different scores are quick to judge."""
LEAST = 20
"""Requests of the incumbent in a cell, below which a rank says little."""


class Ranks:
    """The incumbent's times of the last minute by cell. Memory is bounded by cells and buckets."""

    def __init__(self, buckets: int = BUCKETS) -> None:
        """Begin with nobody to compare with."""
        self._buckets = buckets
        self._cells: dict[Cell, list[int]] = {}
        self._sums: dict[Cell, int] = {}
        self._slots: deque[tuple[int, tuple[Times, ...]]] = deque()

    def add(self, at: int, times: Iterable[Times]) -> None:
        """Take the incumbent's of a second; seconds come in order."""
        kept = tuple(times)
        while self._slots and self._slots[0][0] <= at - SPAN_S:
            self._change(self._slots.popleft()[1], -1)
        if kept:
            self._slots.append((at, kept))
            self._change(kept, 1)

    def scores(self, times: Iterable[Times]) -> tuple[dict[float, int], int]:
        """Return the ranks of these requests, counts by rank in [0, 1], and how many found nobody to compare with."""
        found: dict[float, int] = {}
        alone = 0
        for cell, counts in times:
            known = self._cells.get(cell)
            if known is None or self._sums[cell] < LEAST:
                alone += sum([count for _, count in counts])
                continue
            for bucket, count in counts:
                # Two pseudo-counts in the middle keep the first few from being the best or worst of all.
                rank = (sum(known[:bucket]) + 0.5 * known[bucket] + 1.0) / (self._sums[cell] + 2.0)
                rank = round(rank, DIGITS)
                found[rank] = found.get(rank, 0) + count
        return found, alone

    def _change(self, times: Iterable[Times], sign: int) -> None:
        for cell, counts in times:
            known = self._cells.setdefault(cell, [0] * self._buckets)
            for bucket, count in counts:
                known[bucket] += sign * count
            self._sums[cell] = self._sums.get(cell, 0) + sign * sum([count for _, count in counts])
            if not self._sums[cell]:
                del self._sums[cell], self._cells[cell]
