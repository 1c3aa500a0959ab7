"""By how much a counter grew over a time, from its values at points of it. Pure.

Whoever has no value at the begin was either born since, and counts whole, or was only not seen then: unknown, never 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Point(NamedTuple):
    """A counter's value at a Unix second, and when it was created (None where nobody says)."""

    at: float
    value: float | None
    created: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is known of the page that a counter is on: when it was first read, when its process started."""

    read_at: float | None = None
    started_at: float | None = None


def growth(points: Iterable[Point], page: Page, begin: float) -> float | None:
    """Return the growth since ``begin``; None where a part of it is unknown. The points are in their order."""
    grown: float | None = 0.0
    before: Point | None = None
    for now in points:
        grown = sum_of(grown, _first(now, page, begin) if before is None else _next(before, now))
        before = now
    return grown


def step(before: float | None, after: float | None) -> float | None:
    """Return by how much a counter grew between two values: one that became less began again at 0."""
    if before is None or after is None:
        return None
    return after - before if after >= before else after


def sum_of(one: float | None, other: float | None) -> float | None:
    """Return the sum, None where a part is unknown."""
    return None if one is None or other is None else one + other


def _first(point: Point, page: Page, begin: float) -> float | None:
    """Return what the first value says: where it is older than ``begin`` nobody knows how much of it is."""
    if point.at <= begin:
        return 0.0
    if point.created is not None:
        return point.value if point.created > begin else None
    is_young = page.started_at is not None and page.started_at > begin
    was_lacking = page.read_at is not None and page.read_at < point.at
    return point.value if is_young or was_lacking else None


def _next(before: Point, now: Point) -> float | None:
    """Return the growth between two values; another time of creation is another counter, even where it is greater."""
    is_another = before.created is not None and now.created is not None and before.created != now.created
    return now.value if is_another else step(before.value, now.value)
