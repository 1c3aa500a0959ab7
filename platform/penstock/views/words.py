"""Figures as words: times, durations, rates, shares, money."""

import datetime as dt
from decimal import Decimal

MICRO = 1_000_000


def when(epoch_s: float) -> str:
    """Return the time in UTC; a dash for 0."""
    if not epoch_s:
        return "-"
    return dt.datetime.fromtimestamp(epoch_s, tz=dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float | None) -> str:
    """Return a duration in seconds up to two minutes, in minutes up to two hours."""
    if seconds is None:
        return "-"
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    if seconds < 7200:  # noqa: PLR2004
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"  # noqa: PLR2004


def rate(per_s: float) -> str:
    if per_s >= 0.01:  # noqa: PLR2004
        return f"{per_s:.3g}/s"
    return f"{per_s * 3600:.2g}/h"


def percent(weight: int) -> str:
    return f"{weight / 100:g} %"


def dollars(micro: object) -> str:
    whole, _, cents = f"{Decimal(str(micro)) / MICRO:.6f}".partition(".")
    return f"{whole}.{cents.rstrip('0'):0<2}"
