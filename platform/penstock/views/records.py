"""The record of a request, as a story and a timeline; and the controller's decisions."""

from collections.abc import Iterator, Sequence

from penstock.views.elements import Line, Listing, Record, line, listing, prose
from penstock.views.words import when

WIDTH = 44
"""Columns of the timeline's bars."""


def request(found: Record) -> Iterator[Line]:
    yield from map(prose, found["says"])
    yield line()
    for stage, start_s, length_s in found["timeline"]:
        bar = _bar(start_s, length_s, max(found["seconds"], 1e-9))
        yield line(f"{stage:>13} {bar} {length_s * 1e3:>10,.1f} ms")


def _bar(start_s: float, length_s: float, whole_s: float) -> str:
    start = min(WIDTH - 1, round(WIDTH * start_s / whole_s))
    length = max(1, min(WIDTH - start, round(WIDTH * length_s / whole_s)))
    return f"{'·' * start}{'█' * length}{'·' * (WIDTH - start - length)}"


def decisions(found: Sequence[Record]) -> Listing:
    rows = [
        (when(one["at"]), *(one["decision"][name] for name in ("what", "target", "signal", "value", "objective")))
        for one in found
    ]
    return listing("Decisions", ("at (UTC)", "what", "target", "signal", "said", "against"), rows)
