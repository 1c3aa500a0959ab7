"""Figures in words: times, shares, money, counts."""

import datetime as dt
from collections.abc import Sequence

_A_SECOND, _A_MINUTE, _AN_HOUR, _A_DAY = 1.0, 60.0, 3600.0, 86_400.0
_IN_SECONDS = 2 * _A_MINUTE
"""Shorter times are compared with objectives, and stay in seconds."""
_LONG = (
    (_A_DAY, _AN_HOUR, _A_MINUTE, "d", "h"),
    (_AN_HOUR, _A_MINUTE, _A_SECOND, "h", "min"),
    (_A_MINUTE, _A_SECOND, _A_SECOND, "min", "s"),
)
"""A long unit, its smaller unit and the latter's rounding, with both names."""


def seconds(value: float) -> str:
    """Return a time with three significant digits, or in its two largest units."""
    if abs(value) < _A_SECOND:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.2f} s" if abs(value) < _IN_SECONDS else _long(value)


def _long(value: float) -> str:
    unit, part, _, name, small = next(one for one in _LONG if value >= one[0] - one[2] / 2)
    whole, rest = divmod(round(value / part), round(unit / part))
    return f"{whole} {name} {rest} {small}" if rest else f"{whole} {name}"


def moment(at: float) -> str:
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int, what: str, more: str = "") -> str:
    """Return a number with its noun; ``more`` is an irregular plural."""
    return f"{number:,} {what if number == 1 else more or f'{what}s'}"


def listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
