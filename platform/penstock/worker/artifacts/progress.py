"""Progress of a fetch: bytes and rate."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.clock import Clock

REPORT_EVERY_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress:
    bytes_done: int
    bytes_total: int
    rate_bytes_s: float


OnProgress = Callable[[FetchProgress], None]


def silent(_: FetchProgress) -> None: ...


class Meter:
    """Counts fetched bytes and reports at most every ``REPORT_EVERY_S``. Bytes of an earlier run do not count in the
    rate.
    """

    def __init__(self, *, total: int, already: int, clock: Clock, on_progress: OnProgress) -> None:
        self._total, self._already, self._clock, self._on_progress = total, already, clock, on_progress
        self._fetched = 0
        self._began = clock.monotonic()
        self._reported_at = float("-inf")

    def add(self, count: int) -> None:
        """Count fetched bytes; a negative count withdraws damaged ones."""
        self._fetched += count
        now = self._clock.monotonic()
        if now - self._reported_at >= REPORT_EVERY_S or self._already + self._fetched >= self._total:
            self._reported_at = now
            self._on_progress(self.progress(now))

    def progress(self, now: float) -> FetchProgress:
        elapsed = now - self._began
        rate = max(0, self._fetched) / elapsed if elapsed > 0 else 0.0
        return FetchProgress(bytes_done=self._already + self._fetched, bytes_total=self._total, rate_bytes_s=rate)
