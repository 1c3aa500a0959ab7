"""The rank of a request among the incumbent's of late that were like it.

"The same traffic" is neither the same load nor the same prompts: an idle candidate looks fast, a tenant with long
prompts makes its version look slow. So requests are compared within cells of prompt length and of company
(``domain/arms.py``): with the incumbent's of the last minute, and in a cell that had few of them with the last few of
ten minutes, since thin traffic would find nobody there.
Trade-off: a request without company in its cell says nothing, however many there are; and where traffic is thin, what
slowed the incumbent down minutes ago still counts as its pace.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.domain.arms import BUCKETS, Cell, Times

SPAN_S, MOST_S = 60, 600
DIGITS = 2
"""Of a rank: a hundredth is far below any tolerance, and few different scores are quick to judge."""
LEAST = 20
"""Requests of the incumbent in a cell, below which a rank says little."""
_SWEEP_S = 60

Counts = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Known:
    """The incumbent's of one cell: by bucket, in all, and second by second, oldest first."""

    buckets: list[int]
    many: int = 0
    slots: deque[tuple[int, Counts, int]] = field(default_factory=deque)

    def add(self, at: int, counts: Counts) -> None:
        many = sum([count for _, count in counts])
        self.slots.append((at, counts, many))
        self._change(counts, 1)
        self.many += many

    def forget(self, now: int) -> None:
        """Let go what is older than a minute, as long as enough stay, and what is too old in any case."""
        while self.slots:
            at, counts, many = self.slots[0]
            if at > now - SPAN_S or (at > now - MOST_S and self.many - many < LEAST):
                return
            self.slots.popleft()
            self._change(counts, -1)
            self.many -= many

    def rank(self, bucket: int) -> float:
        """Return the part below this bucket, with half of those in it.

        Two pseudo-counts in the middle keep the first few from being the best or worst of all.
        """
        return (sum(self.buckets[:bucket]) + 0.5 * self.buckets[bucket] + 1.0) / (self.many + 2.0)

    def _change(self, counts: Counts, sign: int) -> None:
        for bucket, count in counts:
            self.buckets[bucket] += sign * count


class Ranks:
    """The incumbent's times of late by cell. Memory is bounded by cells, buckets and seconds."""

    def __init__(self, buckets: int = BUCKETS) -> None:
        """Begin with nobody to compare with."""
        self._buckets = buckets
        self._cells: dict[Cell, _Known] = {}
        self._now = self._swept_at = 0

    def add(self, at: int, times: Iterable[Times]) -> None:
        """Take the incumbent's of a second; seconds come in order."""
        self._now = at
        for cell, counts in times:
            known = self._cells.get(cell)
            if known is None:
                known = self._cells[cell] = _Known([0] * self._buckets)
            known.add(at, counts)
        if at - self._swept_at >= _SWEEP_S:
            self._swept_at = at
            self._sweep()

    def scores(self, times: Iterable[Times]) -> tuple[dict[float, int], int]:
        """Return the ranks of these requests, counts by rank in [0, 1], and how many found nobody to compare with."""
        found: dict[float, int] = {}
        alone = 0
        for cell, counts in times:
            known = self._cells.get(cell)
            if known is not None:
                known.forget(self._now)
            if known is None or known.many < LEAST:
                alone += sum([count for _, count in counts])
                continue
            for bucket, count in counts:
                rank = round(known.rank(bucket), DIGITS)
                found[rank] = found.get(rank, 0) + count
        return found, alone

    def _sweep(self) -> None:
        for cell, known in list(self._cells.items()):
            known.forget(self._now)
            if not known.slots:
                del self._cells[cell]
