"""Hours in which a plan lets batch work run: ``mon-fri 20:00-06:00,sat-sun 00:00-24:00 Europe/Berlin``.

Only the text and its meaning are here; whether the hours are open at a moment is asked in ``jobs``.
"""

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SAYS = "hours are written as 20:00-06:00 Europe/Berlin, or mon-fri 20:00-06:00,sat-sun 00:00-24:00 Europe/Berlin"
_DAY = f"({'|'.join(DAYS)})"
_SPAN = re.compile(rf"(?:{_DAY}(?:-{_DAY})? )?(\d\d):(\d\d)-(\d\d):(\d\d)")
_HOUR_MINUTES = 60
_DAY_MINUTES = 24 * _HOUR_MINUTES
MOST_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Minutes of local days; one that ends at or before its begin ends on the next day."""

    days: frozenset[int]
    """Days on which it begins; Monday is 0."""
    begin_min: int
    end_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHours:
    zone: ZoneInfo
    spans: tuple[Span, ...]


def parsed(text: str) -> BatchHours | None:
    """Return None for an empty text, at all hours; ``ValueError`` with an example for a text of another form."""
    if not text:
        return None
    spans, _, zone = text.strip().rpartition(" ")
    try:
        if len(text) > MOST_CHARS:
            raise ValueError(SAYS)
        return BatchHours(zone=ZoneInfo(zone), spans=tuple(_span(part.strip()) for part in spans.split(",")))
    except (ValueError, OSError, KeyError) as error:  # KeyError: no such zone; OSError: a folder of zones
        raise ValueError(SAYS) from error


def _span(text: str) -> Span:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(SAYS)
    first, last, *clock = found.groups()
    begin, end = (int(clock[at]) * _HOUR_MINUTES + int(clock[at + 1]) for at in (0, 2))
    if begin >= _DAY_MINUTES or end > _DAY_MINUTES or any(int(minutes) >= _HOUR_MINUTES for minutes in clock[1::2]):
        raise ValueError(SAYS)
    return Span(days=_days(first, last), begin_min=begin, end_min=end)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(len(DAYS)))
    begin, end = DAYS.index(first), DAYS.index(last or first)
    return frozenset((begin + step) % len(DAYS) for step in range((end - begin) % len(DAYS) + 1))
