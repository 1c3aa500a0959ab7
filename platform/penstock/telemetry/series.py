"""Samples and series of metrics, as rules and judges read them.

Unknown is None: an absent series and a value that is not a number are never taken for 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

INSTANCE = "instance"
"""Prometheus's own label for the source of a sample."""
STARTED = "process_start_time_seconds"
"""The metric name in Prometheus's own clients; it shows which of a page's counters are younger than a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of one series; None if it is not a number."""

    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Pairs of Unix seconds and a value, None if it is not a number."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float | None], ...]
