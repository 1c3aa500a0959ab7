"""Heartbeats: taken in memory at once, stored now and then, merged with what other controllers stored.

With the store away they stay in memory and nothing is lost: each worker reports again within a second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.control.capacity.uses import follow
from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import WorkerId


class LeaseStore(Protocol):
    """Where heartbeats outlive this process; all may raise ``StoreUnavailable``."""

    async def save(self, seen: Sequence[Seen]) -> None:
        """Store; an older heartbeat never replaces a newer one."""
        ...

    async def load(self, after: float) -> tuple[Seen, ...]:
        """Those since ``after`` (Unix seconds), by worker."""
        ...

    async def forget(self, before: float) -> None:
        """Remove what is older."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How long heartbeats are kept: a silent worker stays visible (why did it fail?) for ``keep_s``."""

    keep_s: float = 600.0


class Hears(NamedTuple):
    """Functions that are told of heartbeats."""

    on_news: Callable[[], None] = lambda: None
    """Called when a worker appears, changes its state or gives its memory back: the next tick should not wait."""
    on_change: Callable[[WorkerReport, WorkerReport], None] = lambda *_: None
    """Called with the report of a worker that has changed its state, after the one before."""
    on_end: Callable[[WorkerReport], None] = lambda _: None
    """Called once for each worker that says why it goes."""


UNHEARD = Hears()


class Heartbeats:
    """Every worker's last heartbeat. Fits `control.loop.WorkerLeases`."""

    def __init__(self, store: LeaseStore, clock: Clock, memory: Memory = Memory(), hears: Hears = UNHEARD) -> None:
        self._store, self._clock = store, clock
        self._memory, self._hears = memory, hears
        self._seen: dict[WorkerId, Seen] = {}
        self._unsaved: set[WorkerId] = set()
        self.known: tuple[Seen, ...] = ()
        """What ``seen`` returned last; for showing, not for deciding."""

    def take(self, report: WorkerReport) -> None:
        """Note a heartbeat that comes now."""
        before = self._seen.get(report.worker)
        self._seen[report.worker] = follow(before, report, self._clock.now())
        self._unsaved.add(report.worker)
        if before is None or _news(before.report) != _news(report):
            self._hears.on_news()
        if before is not None and before.report.state is not report.state:
            self._hears.on_change(before.report, report)
        if report.end is not None and (before is None or before.report.end is None):
            self._hears.on_end(report)

    async def save(self) -> None:
        """Store what came since the last time, and drop what is too old; a failure keeps it for the next time."""
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
        """Return the last heartbeat of every worker of late, by worker; from memory alone while the store is away."""
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


def _news(report: WorkerReport) -> tuple[WorkerState, str, bool]:
    """Return that of a report whose change somebody waits for."""
    return report.state, report.url, report.holds_memory
