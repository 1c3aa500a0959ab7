"""Metrics of the pool: bytes held, sleeps by cause, wakes.

Only the leader knows held bytes and waits; each controller counts the wakes reported to it.
"""

from collections.abc import Iterable, Sequence

from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.versions import Wanted
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

CAUSES = ("requests_held", "never_sleeps", "workers_missing", "pool_bytes")
SLOW_TIMES, SLOW_S = 3.0, 5.0
_ON_THE_WAY = frozenset({WorkerState.WAKING, WorkerState.WARMING})
_WELL = _ON_THE_WAY | {WorkerState.READY, WorkerState.SLEEPING, WorkerState.DRAINING, WorkerState.STOPPED}


class PoolMetrics:
    def __init__(self, metrics: Metrics, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._limit, self._held = metrics.gauge(names.POOL_LIMIT_BYTES), metrics.gauge(names.POOL_HELD_BYTES)
        self._wait, self._swaps = metrics.gauge(names.POOL_WAIT_SECONDS), metrics.counter(names.POOL_SWAPS)
        self._wakes, self._failures = metrics.histogram(names.WAKE_SECONDS), metrics.counter(names.WAKE_FAILURES)
        for cause in CAUSES if limit_bytes else ():
            self._swaps.labels(cause)

    def show(self, held_bytes: int, wanted: Iterable[Wanted], decisions: Sequence[Decision], now: float) -> None:
        """Times of starts and waits are in Unix seconds."""
        if not self._limit_bytes:
            return
        self._limit.set(self._limit_bytes)
        self._held.set(held_bytes)
        self._wait.set(max((now - one.since for one in wanted), default=0.0))
        for one in decisions:
            if one.what == "sleep":
                self._swaps.labels(one.signal).inc()

    def unknown(self) -> None:
        for gauge in (self._limit, self._held, self._wait):
            gauge.set(0.0)

    def heard(self, before: WorkerReport, report: WorkerReport) -> None:
        """The failure counters exist from a wake's start."""
        if _is_waking(before) or _is_waking(report):
            for reason in ("failed", "slow"):
                self._failures.labels(report.version, reason)
        if not _is_waking(before) or report.state in _ON_THE_WAY:
            return
        if report.state not in _WELL:
            self._failures.labels(report.version, "failed").inc()
        elif report.state is WorkerState.READY:
            took_s = sum(phase.seconds for phase in report.phases)
            self._wakes.labels(report.version).observe(took_s)
            if before.restart_s and took_s > SLOW_TIMES * before.restart_s + SLOW_S:
                self._failures.labels(report.version, "slow").inc()


def _is_waking(report: WorkerReport) -> bool:
    if report.state is WorkerState.WAKING:
        return True
    return report.state is WorkerState.WARMING and any(one.phase is WorkerState.WAKING for one in report.phases)
