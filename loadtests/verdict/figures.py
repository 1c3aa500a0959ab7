"""Figures of a sample; none without a sample."""

from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float | None:
    """Return the value below which this share lies; None for an empty sample."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def shown(seconds: float | None) -> str:
    """Return a duration as people read it; a question mark if it is unknown."""
    if seconds is None:
        return "?"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"
