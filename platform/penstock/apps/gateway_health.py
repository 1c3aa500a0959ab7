"""What a gateway knows of its workers' health, put together: breakers, who hears of them, the look for stalls."""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.gateway.dispatch import Breakers, Change, Progress, Stalls
from penstock.gateway.routing import CurrentTable
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics

LOOK_EVERY_S = 0.5


def breakers(table: CurrentTable, chance: random.Random, metrics: Metrics) -> Breakers:
    """Return breakers that follow the table, and tell metrics and log when a circuit turns."""
    made = Breakers(chance, on_change=_told(metrics))
    table.on_change(lambda _, after: made.learn(after.table.versions, after.at))
    return made


def _told(metrics: Metrics) -> Callable[[Change], None]:
    open_, changes, log = metrics.gauge(names.BREAKERS_OPEN), metrics.counter(names.BREAKER_CHANGES), logs.logger()

    def tell(change: Change) -> None:
        state = "open" if change.is_open else "closed"
        open_.labels(level=change.level).inc(1 if change.is_open else -1)
        changes.labels(level=change.level, state=state).inc()
        log.warning("breaker_turned", scope=change.level, state=state, **{change.level.value: change.name})

    return tell


@dataclass(slots=True, kw_only=True)
class Lookout:
    """Looks twice a second whether engines stand still; ``streams`` says how far the running ones are."""

    breakers: Breakers
    streams: Callable[[], Iterable[Progress]]
    clock: Clock
    _stalls: Stalls = field(default_factory=Stalls)
    _suspects: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Look once, and say who is newly suspected."""
        suspects = self._stalls.look(self.streams(), self.clock.monotonic())
        self.breakers.suspect(suspects)
        for worker in suspects - self._suspects:
            logs.logger().warning("worker_suspected", worker=worker, reason="no token for long")
        self._suspects = suspects
