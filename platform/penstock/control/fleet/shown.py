"""Metrics of the fleet: deployed and existing workers by version, and reasons of workers' ends.

Only the leader sets these gauges; it removes them when it stops leading, since 0 would be wrong.
"""

from collections import Counter
from collections.abc import Iterable

from penstock.domain.fleet.versions import Deployment, Seen
from penstock.domain.fleet.worker import WorkerEnd, WorkerReport, WorkerState
from penstock.domain.ids import WorkerId
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

_GONE = frozenset({WorkerState.FAILED, WorkerState.STOPPED})


class FleetMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._workers, self._wanted = metrics.gauge(names.WORKERS), metrics.gauge(names.WORKERS_WANTED)
        self._ends, self._lost = metrics.counter(names.WORKER_ENDS), metrics.gauge(names.WORKER_LOST)
        self._last_lost: dict[tuple[str, WorkerEnd], WorkerId] = {}
        """The lost worker with a series, by version and reason: one each, so that series don't grow with losses."""
        self._states: set[tuple[str, str]] = set()
        self._versions: set[str] = set()
        self._alive: dict[WorkerId, str] = {}

    def show(self, deployments: Iterable[Deployment], known: Iterable[Seen], after: float) -> None:
        """Remove the gauges of versions that are gone. A worker not heard of since ``after`` (Unix seconds) counts only
        if it failed.
        """
        wanted = {str(one.version): one.replicas for one in deployments}
        there, seen = Counter[tuple[str, str]](), tuple(known)
        for one in seen:
            state = one.report.state
            counts = state is WorkerState.FAILED or (state is not WorkerState.STOPPED and one.at > after)
            there[one.report.version, state] += counts
        for version in wanted.keys() - self._versions:
            self._begin(version)
        self._count_lost(seen, after)
        for version, replicas in wanted.items():
            self._wanted.labels(version).set(replicas)
        for version in self._versions - wanted.keys():
            self._wanted.remove(version)
        self._versions = set(wanted)
        self._forget_lost(self._versions)
        self._show_states(there, wanted.keys() | {version for version, _ in there})

    def _show_states(self, there: Counter[tuple[str, str]], versions: set[str]) -> None:
        states = self._states | set(there) | {(version, str(WorkerState.READY)) for version in self._versions}
        self._states = {key for key in states if key[0] in versions}
        for key in self._states:
            self._workers.labels(*key).set(there[key])
        for key in states - self._states:
            self._workers.remove(*key)

    def _count_lost(self, known: Iterable[Seen], after: float) -> None:
        leaving = {one.report.worker for one in known if one.report.end or one.report.state in _GONE}
        alive = {one.report.worker: str(one.report.version) for one in known if one.at > after}
        for worker in self._alive.keys() - alive.keys() - leaving:
            self._end(worker, self._alive[worker], WorkerEnd.LOST)
        self._alive = {worker: version for worker, version in alive.items() if worker not in leaving}

    def unknown(self) -> None:
        self._workers.clear()
        self._wanted.clear()
        self._forget_lost(set())
        self._states, self._versions, self._alive = set(), set(), {}

    def ended(self, report: WorkerReport) -> None:
        if report.end is not None:
            self._end(report.worker, report.version, report.end)

    def _end(self, worker: WorkerId, version: str, end: WorkerEnd) -> None:
        self._ends.labels(version, end).inc()
        if not end.is_loss:
            return
        if before := self._last_lost.get((version, end)):
            self._lost.remove(version, before, end)
        self._last_lost[version, end] = worker
        self._lost.labels(version, worker, end).set_to_current_time()

    def _forget_lost(self, versions: set[str]) -> None:
        for version, end in [key for key in self._last_lost if key[0] not in versions]:
            self._lost.remove(version, self._last_lost.pop((version, end)), end)

    def _begin(self, version: str) -> None:
        """Prometheus's ``increase`` would not see a counter that begins at 1."""
        for end in WorkerEnd:
            self._ends.labels(version, end)
