"""The increase of a counter over a time, from its values at some points. Pure.

A counter without a value at the start is either new, and its value is the increase, or was not scraped: then the
increase is unknown, never 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Point(NamedTuple):
    """A counter's value at a Unix second, with its creation time (None if unknown)."""

    at: float
    value: float | None
    created: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    read_at: float | None = None
    started_at: float | None = None


def growth(points: Iterable[Point], page: Page, begin: float) -> float | None:
    """Points are in order of time; None if a part is unknown."""
    grown: float | None = 0.0
    before: Point | None = None
    for now in points:
        grown = sum_of(grown, _first(now, page, begin) if before is None else _next(before, now))
        before = now
    return grown


def step(before: float | None, after: float | None) -> float | None:
    """A counter that fell was restarted at 0."""
    if before is None or after is None:
        return None
    return after - before if after >= before else after


def sum_of(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _first(point: Point, page: Page, begin: float) -> float | None:
    if point.at <= begin:
        return 0.0
    if point.created is not None:
        return point.value if point.created > begin else None
    is_young = page.started_at is not None and page.started_at > begin
    was_lacking = page.read_at is not None and page.read_at < point.at
    return point.value if is_young or was_lacking else None


def _next(before: Point, now: Point) -> float | None:
    is_another = before.created is not None and now.created is not None and before.created != now.created
    return now.value if is_another else step(before.value, now.value)
