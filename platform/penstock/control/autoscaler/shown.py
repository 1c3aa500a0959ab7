"""Metrics of scaling: numbers, wishes and cordoned workers by version, price, silent gateways.

Only the leader sets these gauges; it removes them when it stops leading, since 0 would be wrong.
"""

import math
from collections.abc import Sequence

from penstock.control.autoscaler.autoscaler import Scaling
from penstock.domain.fleet.demand import Demand
from penstock.domain.fleet.scaling import Act, ScaleRecord
from penstock.domain.ids import VersionId
from penstock.scaling.constants import SILENT_S
from penstock.telemetry import names
from penstock.telemetry.metrics import Gauge, Metrics


class ScaleMetrics:
    def __init__(self, metrics: Metrics) -> None:
        of_version = (names.SCALE_WISH_WORKERS, names.SCALE_WORKERS, names.SCALE_CORDONED, names.SCALE_DOLLARS_PER_HOUR)
        self._gauges = tuple(metrics.gauge(one) for one in of_version)
        self._override = metrics.gauge(names.SCALE_OVERRIDE_ENDS_AT)
        self._changes = metrics.counter(names.SCALE_CHANGES)
        self._idle = metrics.counter(names.SCALE_IDLE_GPU_SECONDS)
        self._idle_at = -math.inf
        self._silent = metrics.gauge(names.DEMAND_SILENT_GATEWAYS)
        self._versions: set[VersionId] = set()

    def show(self, done: Scaling, demand: Demand) -> None:
        self._silent.set(len(demand.missing))
        for one in done.records:
            cordoned = len(done.targets[one.version].cordoned)
            for gauge, value in zip(self._gauges, (one.wish, one.after, cordoned, one.per_hour_after), strict=True):
                _set(gauge, one.version, value)
            _set(self._override, one.version, one.override.until if one.override else None)
            if one.act is not Act.HOLD:
                self._changes.labels(one.version, one.act).inc()
        self._count_idle(done.records)
        self._forget({one.version for one in done.records})

    def _count_idle(self, records: Sequence[ScaleRecord]) -> None:
        """Ignore a gap longer than a silent gateway's: it is no evidence of idleness."""
        for one in records:
            seconds = one.at - self._idle_at
            for reason, gpus in one.idle_gpus.items() if seconds < SILENT_S else ():
                self._idle.labels(one.version, reason).inc(gpus * seconds)
        self._idle_at = max((one.at for one in records), default=-math.inf)

    def unknown(self) -> None:
        self._silent.set(0)
        self._idle_at = -math.inf
        self._forget(set())

    def _forget(self, kept: set[VersionId]) -> None:
        for version in self._versions - kept:
            for gauge in (*self._gauges, self._override):
                _set(gauge, version, None)
        self._versions = kept


def _set(gauge: Gauge, version: VersionId, value: float | None) -> None:
    if value is None:
        gauge.remove(version)
    else:
        gauge.labels(version).set(value)
