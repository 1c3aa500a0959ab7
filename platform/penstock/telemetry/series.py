"""What was measured, as rules and judgements read it: samples and series of any metric.

Unknown is None: a series that is absent and a value that is no number are never taken for 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

INSTANCE = "instance"
"""Prometheus's own label for whose page a sample is of."""
STARTED = "process_start_time_seconds"
"""What Prometheus's own clients call it; which of a page's counters are younger than a window, it alone tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of one series; None where it is no number."""

    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series over time: pairs of Unix seconds and a value, which is None where it is no number."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float | None], ...]
