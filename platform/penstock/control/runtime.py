"""The leader's loop: it ticks periodically, and at once when something changed.

If the store is unavailable no controller leads, nothing is started or stopped, and heartbeats are still accepted and
kept in memory.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from penstock.control.autoscaler.heard import HeardDemand
from penstock.control.autoscaler.shown import ScaleMetrics
from penstock.control.fleet.heartbeats import Heartbeats, Listeners
from penstock.control.fleet.orders import Orders
from penstock.control.fleet.shown import FleetMetrics
from penstock.control.loop import Loop, Tick
from penstock.control.pool.shown import PoolMetrics
from penstock.domain.errors import PenstockError, StoreUnavailable
from penstock.domain.fleet.table import EMPTY, RoutingTable
from penstock.domain.fleet.versions import Running, Wanted
from penstock.domain.ids import WorkerId
from penstock.telemetry import names, pages
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.pages import Page


class Leadership(Protocol):
    async def is_mine(self) -> bool:
        """Tell whether this controller leads, becoming the leader if there is none; ``StoreUnavailable`` if the store
        can't tell.
        """
        ...

    async def resign(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopIntervals:
    """Seconds between ticks, between attempts to lead, between saves of heartbeats, and the least time between two
    ticks.
    """

    tick_s: float = 0.5
    standby_s: float = 1.0
    save_s: float = 1.0
    rest_s: float = 0.02
    lease_s: float = 5.0
    """Seconds of silence after which a worker is no longer shown."""
    stale_s: float = 15.0
    """Seconds since the last successful tick after which a leader isn't ready."""


class Signals:
    def __init__(self, metrics: Metrics, *, pool_bytes: int = 0) -> None:
        self.news = asyncio.Event()
        self.fleet = FleetMetrics(metrics)
        self.pool = PoolMetrics(metrics, pool_bytes)
        self.scale = ScaleMetrics(metrics)

    @property
    def listeners(self) -> Listeners:
        return Listeners(on_news=self.news.set, on_change=self.pool.heard, on_end=self.fleet.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    loop: Loop
    leadership: Leadership
    heartbeats: Heartbeats
    demand: HeardDemand
    orders: Orders
    metrics: Metrics
    signals: Signals
    pace: LoopIntervals = LoopIntervals()


class Runtime:
    """``on_lead`` is called each time that this controller becomes the leader."""

    def __init__(self, parts: Parts, on_lead: Callable[[], None]) -> None:
        self._parts = parts
        self._on_lead = on_lead
        self._news, self._shown, self._pool = parts.signals.news, parts.signals.fleet, parts.signals.pool
        self._scale = parts.signals.scale
        self.held_bytes = 0
        """What those held of the pool that were awake, by the last tick."""
        self.waited_for: tuple[Wanted, ...] = ()
        self.running: Mapping[WorkerId, Running] = {}
        """The workers with processes, as their host saw them at the last tick."""
        self.unfit: tuple[str, ...] = ()
        """Versions that are larger than the pool, in words."""
        self.leads = False
        self._has_begun = False
        self._good_at = 0.0
        self.failed_ticks = 0
        self.table: RoutingTable = EMPTY

    @property
    def demand(self) -> HeardDemand:
        return self._parts.demand

    @property
    def is_ready(self) -> bool:
        return self._has_begun and not (self.leads and self._now() - self._good_at > self._parts.pace.stale_s)

    @property
    def pages(self) -> Mapping[str, Page]:
        return {pages.LIVE: self._live, pages.READY: self._ready}

    async def _live(self) -> tuple[int, str, bytes]:
        return 200, "text/plain", b"ok\n"

    async def _ready(self) -> tuple[int, str, bytes]:
        told = {"ready": self.is_ready, "leader": self.leads, "failed_ticks": self.failed_ticks}
        return 200 if self.is_ready else 503, "application/json", json.dumps(told).encode()

    def wake(self) -> None:
        self._news.set()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forever(self._step))
                group.create_task(self._forever(self._save))
        finally:
            with suppress(StoreUnavailable):
                await self._parts.heartbeats.save()
            await self._parts.leadership.resign()

    async def _forever(self, step: Callable[[], Awaitable[float]]) -> None:
        """Repeat a step, which returns the seconds until the next; an error is logged, and ends nothing."""
        while True:
            try:
                wait_s = await step()
            except Exception as error:  # noqa: BLE001  the corridor must outlive a bug in one of its steps
                logger().error("control_step_failed", error_type=type(error).__name__, reason=str(error))
                wait_s = self._parts.pace.standby_s
            await asyncio.sleep(wait_s)

    async def _step(self) -> float:
        try:
            leads = await self._parts.leadership.is_mine()
        except StoreUnavailable as error:
            self._parts.metrics.gauge(names.DATABASE_UP).set(0)
            self._lead(leads=False, reason=error.message)
            return self._parts.pace.standby_s
        self._parts.metrics.gauge(names.DATABASE_UP).set(1)
        self._lead(leads=leads)
        if not leads:
            self._has_begun = True
            return self._parts.pace.standby_s
        self._news.clear()
        await self._tick()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._parts.pace.tick_s):
                await self._news.wait()
        return self._parts.pace.rest_s

    def _lead(self, *, leads: bool, reason: str = "") -> None:
        if leads == self.leads:
            return
        self._parts.orders.forget()
        self._parts.loop.scaler.forget()
        if leads:
            self._good_at = self._now()
            self._parts.orders.listen_from(self._parts.loop.clock.now())
            self._on_lead()
        else:
            self._shown.unknown()
            self._pool.unknown()
            self._scale.unknown()
            self._parts.loop.rollouts.unknown()
        self.leads = leads
        self._parts.metrics.gauge(names.IS_LEADER).set(leads)
        logger().info("leads" if leads else "leads_no_more", leader=leads, reason=reason)

    async def _tick(self) -> None:
        began = self._now()
        try:
            done = await self._parts.loop.tick()
        except PenstockError as error:
            self._count_failure(error.code, error.message)
        except Exception as error:  # noqa: BLE001  a bug in one tick must not end the corridor
            self._count_failure(type(error).__name__, str(error))
        else:
            self._after(done)
        self._parts.metrics.histogram(names.TICK_SECONDS).observe(self._now() - began)

    def _count_failure(self, code: str, reason: str) -> None:
        self.failed_ticks += 1
        self._parts.metrics.counter(names.TICK_FAILURES).inc()
        logger().warning("tick_failed", code=code, reason=reason)
        if not self.is_ready:  # an unready controller is sent no heartbeats
            self._parts.orders.listen_from(self._parts.loop.clock.now())

    def _after(self, done: Tick) -> None:
        self._has_begun, self._good_at = True, self._now()
        if done.table.number != self.table.number:
            self._parts.metrics.counter(names.TABLES_PUBLISHED).inc()
        self.table = done.table
        now = self._parts.loop.clock.now()
        self._shown.show(done.deployments, self._parts.heartbeats.known, now - self._parts.pace.lease_s)
        self.held_bytes, self.waited_for, self.unfit = done.plan.held_bytes, done.wanted, done.plan.unfit
        self.running = {one.worker: one for one in done.running}
        self._parts.orders.pin(done.pinned)
        self._parts.orders.fetch(done.ahead)
        self._parts.orders.share({version: one.batch_slots for version, one in done.scaling.targets.items()})
        self._scale.show(done.scaling, done.asked)
        self._pool.show(done.plan.held_bytes, done.wanted, done.plan.why, now)

    async def _save(self) -> float:
        with suppress(StoreUnavailable):
            await self._parts.heartbeats.save()
        return self._parts.pace.save_s

    def _now(self) -> float:
        return self._parts.loop.clock.monotonic()
