"""Reports the progress of a fetch."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.clock import Clock

REPORT_EVERY_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchProgress:
    bytes_done: int
    bytes_total: int


OnProgress = Callable[[FetchProgress], None]


def silent(_: FetchProgress) -> None: ...


class Meter:
    def __init__(self, *, total: int, already: int, clock: Clock, on_progress: OnProgress) -> None:
        self._total, self._done, self._clock, self._on_progress = total, already, clock, on_progress
        self._reported_at = float("-inf")

    def add(self, count: int) -> None:
        """Count fetched bytes; a negative count withdraws damaged ones."""
        self._done += count
        now = self._clock.monotonic()
        if now - self._reported_at >= REPORT_EVERY_S or self._done >= self._total:
            self._reported_at = now
            self._on_progress(FetchProgress(bytes_done=self._done, bytes_total=self._total))
