"""Heartbeats: kept in memory, saved periodically, merged with those that other controllers saved.

Ages exclude seconds in which this process did not run: a suspended controller received no heartbeats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.capacity.uses import follow
from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import WorkerId


class LeaseStore(Protocol):
    """The store of heartbeats; every method may raise ``StoreUnavailable``."""

    async def save(self, seen: Sequence[Seen]) -> None: ...

    async def load(self, after: float) -> tuple[Seen, ...]:
        """Return the heartbeats since ``after`` (Unix seconds), by worker."""
        ...

    async def forget(self, before: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A silent worker's heartbeat stays for ``keep_s``, so that operators see why it failed."""

    keep_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    on_news: Callable[[], None] = lambda: None
    """A worker appeared, changed its state or freed its memory: the next tick should not wait."""
    on_change: Callable[[WorkerReport, WorkerReport], None] = lambda *_: None
    on_end: Callable[[WorkerReport], None] = lambda _: None


class Heartbeats:
    """``awake``: a clock of the seconds in which this process ran; without it no second is excluded."""

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        memory: Memory = Memory(),
        listeners: Listeners = Listeners(),
        awake: Clock | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._awake = awake or clock
        self._memory = memory
        self._listeners = listeners
        self._seen: dict[WorkerId, Seen] = {}
        self._unsaved: set[WorkerId] = set()
        self._slept_s = float("inf")
        self.known: tuple[Seen, ...] = ()
        """What ``seen`` returned last; for showing, not for deciding."""

    def take(self, report: WorkerReport) -> None:
        before = self._seen.get(report.worker)
        self._seen[report.worker] = follow(before, report, self._clock.now())
        self._unsaved.add(report.worker)
        if before is None or _news(before.report) != _news(report):
            self._listeners.on_news()
        if before is not None and before.report.state is not report.state:
            self._listeners.on_change(before.report, report)
        if report.end is not None and (before is None or before.report.end is None):
            self._listeners.on_end(report)

    async def save(self) -> None:
        batch, self._unsaved = self._unsaved, set()
        oldest = self._clock.now() - self._memory.keep_s
        try:
            if batch:
                await self._store.save([self._seen[worker] for worker in sorted(batch & self._seen.keys())])
            await self._store.forget(oldest)
        except StoreUnavailable:
            self._unsaved |= batch
            raise
        self._seen = {worker: one for worker, one in self._seen.items() if one.at >= oldest}

    async def seen(self) -> tuple[Seen, ...]:
        """Return the reports to all controllers; only those in memory if the store is unavailable."""
        self._leave_out_sleep()
        oldest = self._clock.now() - self._memory.keep_s
        try:
            stored = await self._store.load(oldest)
        except StoreUnavailable:
            stored = ()
        merged = {one.report.worker: one for one in stored}
        for worker, one in self._seen.items():
            if worker not in merged or merged[worker].at <= one.at:
                merged[worker] = one
        self.known = tuple(one for _, one in sorted(merged.items()) if one.at >= oldest)
        return self.known

    def _leave_out_sleep(self) -> None:
        """Move heartbeats' times forward by the seconds in which this process did not run."""
        slept_s, now = self._clock.monotonic() - self._awake.monotonic(), self._clock.now()
        lost_s, self._slept_s = slept_s - self._slept_s, slept_s
        if lost_s > 0.0:
            self._seen = {worker: replace(one, at=min(now, one.at + lost_s)) for worker, one in self._seen.items()}


def _news(report: WorkerReport) -> tuple[WorkerState, str, bool]:
    return report.state, report.url, report.holds_memory
