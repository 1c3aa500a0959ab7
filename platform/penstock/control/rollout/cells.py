"""The rank of a request among the incumbent's of late that were like it.

"The same traffic" is neither the same load nor the same prompts: an idle candidate looks fast, a tenant with long
prompts makes its version look slow. So requests are compared within cells of prompt length and of company
(``domain/arms.py``): with the incumbent's of the last minute, and in a cell that had few of them with the last few of
ten minutes. Where these are too few as well, the cells beside it help out, always two on opposite sides with the same
weight: what is slower on one side is as much faster on the other.
Trade-off: a request without company says nothing, however many there are; and where traffic is thin, what slowed the
incumbent down minutes ago still counts as its pace.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.domain.rollout.arms import BUCKETS, Cell, Times

SPAN_S, MOST_S = 60, 600
DIGITS = 2
"""Of a rank: a hundredth is far below any tolerance, and few different scores are quick to judge."""
LEAST = 20
"""Requests of the incumbent in a cell, below which a rank says little."""
FORGIVEN = 1
"""Buckets of time that are forgiven to a candidate: a tenth."""
LEAST_BESIDE = 5
"""And in a cell that only helps out."""
_SWEEP_S = 60
_NO_CELL = 2
"""One that runs beside it is the cell 1, two are the cell 3."""

Counts = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Known:
    """The incumbent's of one cell: by bucket, in all, and second by second, oldest first."""

    buckets: list[int]
    many: int = 0
    slots: deque[tuple[int, Counts, int]] = field(default_factory=deque)

    def add(self, at: int, counts: Counts) -> None:
        many, buckets = 0, self.buckets
        for bucket, count in counts:
            buckets[bucket] += count
            many += count
        self.slots.append((at, counts, many))
        self.many += many

    def copied(self) -> "_Known":
        """Return the same, to go on apart."""
        return _Known(list(self.buckets), self.many, deque(self.slots))

    def forget(self, now: int) -> None:
        """Let go what is older than a minute, as long as enough stay, and what is too old in any case."""
        while self.slots:
            at, counts, many = self.slots[0]
            if at > now - SPAN_S or (at > now - MOST_S and self.many - many < LEAST):
                return
            self.slots.popleft()
            for bucket, count in counts:
                self.buckets[bucket] -= count
            self.many -= many

    def rank(self, bucket: int) -> float:
        """Return the part below this bucket, with half of those in it.

        Two pseudo-counts in the middle keep the first few from being the best or worst of all.
        """
        return (sum(self.buckets[:bucket]) + 0.5 * self.buckets[bucket] + 1.0) / (self.many + 2.0)


_Company = list[tuple[_Known, float]]
"""Whom a request is compared with, and how much each of them counts."""


class Ranks:
    """The incumbent's times of late by cell. Memory is bounded by cells, buckets and seconds."""

    def __init__(self, buckets: int = BUCKETS) -> None:
        self._buckets = buckets
        self._cells: dict[Cell, _Known] = {}
        self._now = self._swept_at = 0

    def copied(self) -> "Ranks":
        """Return the same requests, to go on apart."""
        found = Ranks(self._buckets)
        found._cells = {cell: known.copied() for cell, known in self._cells.items()}
        found._now, found._swept_at = self._now, self._swept_at
        return found

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

    def scores(self, times: Iterable[Times], forgiven: int = 0) -> tuple[dict[float, int], int]:
        """Return the ranks of these requests, counts by rank in [0, 1], and how many found nobody to compare with.

        ``forgiven`` buckets are taken off each: where times hardly spread, what nobody would notice has a rank too.
        """
        (found,), alone = self.scores_by(times, (forgiven,))
        return found, alone

    def scores_by(self, times: Iterable[Times], forgiven: tuple[int, ...]) -> tuple[list[dict[float, int]], int]:
        """Return the same by what is forgiven, once for each."""
        found: list[dict[float, int]] = [{} for _ in forgiven]
        companies: dict[Cell, tuple[_Company, dict[int, float]]] = {}
        alone = 0
        for cell, counts in times:
            known = companies.get(cell)
            if known is None:
                known = companies[cell] = (self._company(cell), {})
            company, ranks = known
            if not company:
                alone += sum([count for _, count in counts])
                continue
            for counted, less in zip(found, forgiven, strict=True):
                for bucket, count in counts:
                    place = bucket - less if bucket > less else 0
                    rank = ranks.get(place)
                    if rank is None:
                        rank = ranks[place] = _rank(company, place)
                    counted[rank] = counted.get(rank, 0) + count
        return found, alone

    def _company(self, cell: Cell) -> _Company:
        """Return whom a request of this cell is compared with, and how much each of them counts; empty for nobody."""
        own = self._known(cell)
        company = [(own, float(own.many))] if own is not None else []
        if own is not None and own.many >= LEAST:
            return company
        for pair in _opposite(cell):
            one, other = (self._known(beside) for beside in pair)
            if one is not None and other is not None and (least := min(one.many, other.many)) >= LEAST_BESIDE:
                company += [(one, float(least)), (other, float(least))]
        return company if sum([weight for _, weight in company]) >= LEAST else []

    def _known(self, cell: Cell) -> _Known | None:
        known = self._cells.get(cell)
        if known is not None:
            known.forget(self._now)
        return known

    def _sweep(self) -> None:
        for cell, known in list(self._cells.items()):
            known.forget(self._now)
            if not known.slots:
                del self._cells[cell]


def _rank(company: _Company, place: int) -> float:
    """Return the rank among these, each with its weight, in hundredths."""
    ranks = weights = 0.0
    for known, weight in company:
        ranks += known.rank(place) * weight
        weights += weight
    return round(ranks / weights, DIGITS)


@lru_cache(maxsize=1 << 12)
def _opposite(cell: Cell) -> tuple[tuple[Cell, Cell], tuple[Cell, Cell]]:
    """Return the cells on both sides of this one, by company and by prompt; no company makes the cell 2."""
    prompt, running = cell
    fewer, more = running - (2 if running == _NO_CELL + 1 else 1), running + (2 if running == _NO_CELL - 1 else 1)
    return (Cell(prompt, fewer), Cell(prompt, more)), (Cell(prompt - 1, running), Cell(prompt + 1, running))
