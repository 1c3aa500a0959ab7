"""The steps of a running engine, by composition: the median of each is a point of its curve. Pure.

A step's wait for a core is subtracted; after a long wait the step is left out. A composition counts from its third step
on.

Trade-off: a rare composition never counts.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from penstock.domain.models.steps import Point, StepBatch

KEPT = 9
"""Recent steps of one composition; their median is the point."""
BELIEVED = 3
"""Steps from which on a composition is a point."""
MOST_CELLS = 192
"""Compositions that are kept; the one that is longest unseen gives way."""
IN_FLIGHT = 8
"""Steps planned and not ended at most: more than any engine pipelines, and a bound if ends are never told."""
DISTURBED = 0.3
"""The part of a step that may be a wait for a core: beyond it the step's caches were others' as well."""
_FINE = 2.0
"""Compositions within a factor of the square root of two count as one."""
_Cell = tuple[int, ...]


@dataclass(slots=True)
class StepLog:
    """The log of one engine. Steps may be planned before the one before has ended, as asynchronous engines do."""

    is_on: bool = False
    """Off until the worker is ready: the steps of a cold engine teach nothing."""
    steps: int = 0
    disturbed: int = 0
    _cells: dict[_Cell, deque[Point]] = field(default_factory=dict)
    _planned: deque[tuple[StepBatch, float, float]] = field(default_factory=lambda: deque(maxlen=IN_FLIGHT))
    _ended: float = 0.0
    _ended_waited: float = 0.0

    def planned(self, batch: StepBatch, at: float, waited_s: float) -> None:
        """Note a step that is planned at a second; ``waited_s`` is the engine's whole time without a core so far."""
        self._planned.append((batch, at, waited_s))

    def ended(self, at: float, waited_s: float) -> None:
        if not self._planned:
            return
        batch, began, waited_before = self._planned.popleft()
        seconds = at - max(began, self._ended)
        waited = waited_s - max(waited_before, self._ended_waited)
        self._ended, self._ended_waited = at, waited_s
        if not self.is_on or seconds <= 0 or not batch.decoding + batch.prompt:
            return
        self.steps += 1
        if waited > DISTURBED * seconds:
            self.disturbed += 1
            return
        self._take(Point(batch, seconds - max(0.0, waited)))

    def points(self) -> list[Point]:
        found = []
        for cell in self._cells.values():
            if len(cell) >= BELIEVED:
                ordered = sorted(cell, key=lambda one: one.seconds)
                found.append(ordered[len(ordered) // 2])
        return found

    def forget(self) -> None:
        self._cells.clear()
        self.steps = self.disturbed = 0

    def _take(self, point: Point) -> None:
        key = tuple(round(_FINE * math.log2(1 + value)) for value in point.batch)
        cell = self._cells.pop(key, None)
        if cell is None:
            cell = deque(maxlen=KEPT)
            if len(self._cells) >= MOST_CELLS:
                del self._cells[next(iter(self._cells))]
        cell.append(point)
        self._cells[key] = cell
