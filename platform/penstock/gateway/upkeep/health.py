"""The workers' health at a gateway: circuit breakers, stalled engines, versions under pressure."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.domain.ids import WorkerId
from penstock.domain.models.model import Tier
from penstock.gateway.admission.degrader import Crowd, PressureDegrader
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.lease import Lease
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.prober import Prober
from penstock.gateway.dispatch.records import Change, Level
from penstock.gateway.dispatch.stalls import Stalls, StreamProgress
from penstock.gateway.routing.current import CurrentTable
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics

LOOK_EVERY_S = 0.5
NOBODY = WorkerId("")


def breakers(table: CurrentTable, chance: random.Random, metrics: Metrics) -> Breakers:
    made = Breakers(chance, on_change=_reporter(metrics))
    table.on_change(lambda _, after: made.learn(after.table.versions, after.at))
    return made


def _reporter(metrics: Metrics) -> Callable[[Change], None]:
    open_, changes, log = metrics.gauge(names.BREAKERS_OPEN), metrics.counter(names.BREAKER_CHANGES), logs.logger()
    ejections, opened = metrics.counter(names.EJECTIONS), _Opened(metrics)

    def report(change: Change) -> None:
        state = "open" if change.is_open else "closed"
        opened.take(change)
        open_.labels(level=change.level).inc(1 if change.is_open else -1)
        changes.labels(level=change.level, state=state).inc()
        if change.is_open and change.level is Level.WORKER:
            ejections.labels(version=change.version).inc()
        named = {"version": change.version} if change.level is Level.WORKER else {}
        named[change.level.value] = change.name
        log.warning("breaker_turned", scope=change.level, state=state, reason=change.reason, **named)

    return report


class _Opened:
    """Labels as they were when the circuit opened."""

    def __init__(self, metrics: Metrics) -> None:
        self._gauge = metrics.gauge(names.BREAKER_OPENED)
        self._labels: dict[tuple[Level, str], tuple[str, ...]] = {}

    def take(self, change: Change) -> None:
        key = change.level, change.name
        if change.is_open:
            labels = self._labels[key] = _circuit(change)
            self._gauge.labels(*labels).set_to_current_time()
        elif key in self._labels:
            self._gauge.remove(*self._labels.pop(key))


def _circuit(change: Change) -> tuple[str, str, str, str]:
    match change.level:
        case Level.WORKER:
            return change.level, change.version, change.name, ""
        case Level.ZONE:
            return change.level, "", "", change.name
        case Level.VERSION:
            return change.level, change.name, "", ""


def degrader(crowd: Crowd, clock: Clock, metrics: Metrics, enter_s: Mapping[Tier, float]) -> PressureDegrader:
    gauge = metrics.gauge(names.PRESSURE)
    return PressureDegrader(
        crowd=crowd,
        clock=clock,
        enter_s=enter_s,
        report=lambda version, is_on: gauge.labels(version=version).set(is_on),
    )


def _progress(of: tuple[Lease, Admitted]) -> StreamProgress:
    lease, call = of
    return StreamProgress(call.attempts.worker.id if call.attempts.worker else NOBODY, id(lease), lease.delivered)


@dataclass(slots=True, kw_only=True)
class HealthWatch:
    breakers: Breakers
    prober: Prober
    running: Mapping[Lease, Admitted]
    degrader: PressureDegrader
    table: CurrentTable
    clock: Clock
    awake: Clock
    """A clock of seconds in which this process ran: streams of a suspended gateway got no token meanwhile."""
    _stalls: Stalls = field(default_factory=Stalls)
    _suspects: frozenset[str] = frozenset()

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        self.degrader.look(self.table.view.table.versions)
        now = self.clock.monotonic()
        suspects = self._stalls.look(map(_progress, self.running.items()), self.awake.monotonic())
        self.breakers.suspect(suspects, now)
        for worker in suspects - self._suspects:
            logs.logger().warning("worker_suspected", worker=worker, reason="no token for long")
        self._suspects = suspects
