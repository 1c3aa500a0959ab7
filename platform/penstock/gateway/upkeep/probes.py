"""Pages of a gateway's private listener: probes (live, ready, whether its region serves), and metrics in both formats.

Gauges that nothing else moves are set when a page is asked for.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.filters.book import CurrentPacks
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.routing.current import CurrentTable
from penstock.intake.connection import Drain
from penstock.telemetry import names, pages
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.pages import Page
from penstock.telemetry.thread_times import of_this_thread

Answer = tuple[int, str, bytes]
Exposition = Callable[[], bytes]


class Source(Protocol):
    @property
    def age_s(self) -> float: ...

    @property
    def refused(self) -> int: ...


def missing(table: CurrentTable, keys: Keyring, packs: CurrentPacks) -> str:
    if not table.number:
        return "no routing table yet"
    if not len(keys):
        return "no API keys yet"
    return "" if packs.is_known else "no safety packs yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    table: CurrentTable
    keys: Keyring
    packs: CurrentPacks
    breakers: Breakers
    clock: Clock
    drain: Drain

    @property
    def pages(self) -> Mapping[str, Page]:
        return {pages.LIVE: self._live, pages.READY: self._ready, pages.REGION: self._region}

    def missing(self) -> str:
        return missing(self.table, self.keys, self.packs)

    def serves(self) -> bool:
        """True if a worker serves and the version's circuit is closed."""
        view, now = self.table.view, self.clock.monotonic()
        named = {share.version for route in view.table.routes for share in route.shares if share.weight}
        versions = {view.versions[one].base or one for one in named}
        return any(view.rosters[one].serving and not self.breakers.shut_for_s(one, now) for one in versions)

    async def _live(self) -> Answer:
        return _answer(200, "ok")

    async def _ready(self) -> Answer:
        why = "draining" if self.drain.is_on else self.missing()
        return _answer(503 if why else 200, why or "ready", table=self.table.number, keys=len(self.keys))

    async def _region(self) -> Answer:
        why = self.missing() or ("" if self.serves() else "no worker of any alias could answer")
        return _answer(503 if why else 200, why or "serving", table=self.table.number)


def _answer(status: int, word: str, **more: int) -> Answer:
    return status, "application/json", json.dumps({"status": word, **more}).encode()


def expositions(metrics: Metrics, source: Source) -> tuple[Exposition, Exposition]:
    fresh = _refreshing(metrics, source)
    return _after(fresh, metrics.exposition), _after(fresh, metrics.openmetrics)


def _after(fresh: Callable[[], None], say: Exposition) -> Exposition:
    def expose() -> bytes:
        fresh()
        return say()

    return expose


def _refreshing(metrics: Metrics, source: Source) -> Callable[[], None]:
    """Return a function that refreshes gauges; it runs in the event loop's thread and reads that thread's CPU time."""
    age, refused = metrics.gauge(names.TABLE_AGE_SECONDS), metrics.counter(names.TABLES_REFUSED)
    loop, spent = metrics.counter(names.LOOP_SECONDS), dict[str, float]()
    counted = 0

    def refresh() -> None:
        nonlocal counted
        age.set(source.age_s)
        refused.inc(source.refused - counted)
        counted = source.refused
        for state, seconds in of_this_thread().items():
            loop.labels(state=state).inc(max(0.0, seconds - spent.get(state, 0.0)))
            spent[state] = seconds

    return refresh
