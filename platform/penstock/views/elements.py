"""The elements of a screen or page: lines of styled text, listings of rows; and ``Record``, an API's JSON object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Record = Mapping[str, Any]
"""A JSON object as the operators' API answers it."""


class Style(StrEnum):
    PLAIN = "plain"
    STRONG = "strong"
    MUTED = "muted"
    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    parts: tuple[tuple[str, Style], ...]
    is_prose: bool = False
    """Whether the line may be broken between words."""

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A listing with columns and rows; ``notes`` holds one for each row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


Shown = Line | Listing
Cell = str | Callable[[Record], object]
"""A record's field, or the cell made of the record."""


def line(*parts: str | tuple[str, Style]) -> Line:
    return Line(parts=tuple((one, Style.PLAIN) if isinstance(one, str) else one for one in parts))


def prose(text: str, style: Style = Style.PLAIN) -> Line:
    return Line(parts=((text, style),), is_prose=True)


def listing(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], notes: Sequence[str] = ()) -> Listing:
    found = tuple(tuple(str(cell) for cell in row) for row in rows)
    return Listing(title=title, columns=tuple(columns), rows=found, notes=tuple(notes))


def of(told: Callable[[Any], object], field: str) -> Cell:
    return lambda one: told(one[field])


def table(
    title: str, found: Sequence[Record], columns: Mapping[str, Cell], note: Callable[[Record], str] | None = None
) -> Listing:
    rows = [[one[cell] if isinstance(cell, str) else cell(one) for cell in columns.values()] for one in found]
    return listing(title, columns, rows, [note(one) for one in found] if note else ())
