"""Restarts of a home's processes: counted in a metric, logged, and shown by `penstock status` with their time."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TextIO

from penstock.domain.clock import Clock
from penstock.supervision.restarts import Cause, Restart
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics

LOG = "supervisor.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """Restarts since the platform's start; ``at`` is the last one's Unix second."""

    count: int = 0
    at: float = 0.0
    why: str = ""


class Restarts:
    def __init__(self, clock: Clock) -> None:
        self.metrics = Metrics()
        self._clock = clock
        self._counter = self.metrics.counter(names.RESTARTS)
        self._database = self.metrics.gauge(names.DATABASE_UP)
        self._of: dict[str, Restarted] = {}

    def log_to(self, folder: Path) -> TextIO:
        """Log beside the processes' logs, for the rest of this process's life."""
        folder.mkdir(parents=True, exist_ok=True)
        log = (folder / LOG).open("a", buffering=1)
        logs.configure("supervisor", stream=log)
        return log

    def expect(self, process: str) -> None:
        """Begin at zero, so that a process's first restart is an increase."""
        for cause in Cause:
            self._counter.labels(process=process, reason=cause.value)

    def note(self, restart: Restart) -> None:
        known, now = self._of.get(restart.process, Restarted()), self._clock.now()
        self._of[restart.process] = replace(known, count=known.count + 1, at=now, why=restart.why)
        self._counter.labels(process=restart.process, reason=restart.cause.value).inc()
        logs.logger().warning(
            "process_restarted",
            object=restart.process,
            reason=restart.cause.value,
            detail=restart.why,
            restarts=known.count + 1,
        )

    def database(self, *, is_up: bool) -> None:
        self._database.set(is_up)

    def plain(self) -> dict[str, dict[str, object]]:
        return {process: asdict(one) for process, one in self._of.items()}
