"""Reports what is asked of each version to the controllers: each second, and at once if a version must wake.

Counters are sent as they are since the process began, so that a lost report costs nothing; nothing is stored.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.demand import Counted, GatewayReport, HeldNow
from penstock.domain.ids import VersionId
from penstock.lateness.awake import TICK_S, timeout

EVERY_S = 1.0
WITHIN_S = 2.0
"""Seconds to accept a report: a caller waits for the answer."""
PASSING_S = 3.0
"""Seconds for which a refused request's demand is reported: room in the memory takes some ticks to be made."""


class Want(NamedTuple):
    requests: int = 0
    tokens: int = 0


class _Passing(NamedTuple):
    want: Want
    until: float


class Teller(Protocol):
    async def tell(self, report: GatewayReport) -> None: ...


@dataclass(slots=True)
class WakeDemand:
    gateway: str = "gateway"
    clock: Clock = field(default_factory=SystemClock)
    is_runner: bool = False
    held: Callable[[], Mapping[VersionId, Want]] = dict
    counted: Callable[[], tuple[Counted, ...]] = tuple
    away: Callable[[], None] = lambda: None
    """Called when no controller can be reached."""
    loop_lag_s: float = 0.0
    """The event loop's longest delay since the last report, by its own work."""
    computed_s: Callable[[], float] = time.thread_time
    cpu_s: Callable[[], float] = time.process_time
    """CPU seconds of this process: those of its start are not told."""
    _computed_s: float = math.inf
    _cpu_from_s: float = 0.0
    _began: float = 0.0
    _number: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _passing: dict[VersionId, _Passing] = field(default_factory=dict)
    """Demand of requests that are not held: another version answers them, or their deadline is too early."""
    _since: dict[VersionId, float] = field(default_factory=dict)
    """The begin of each version's uninterrupted wait, in monotonic seconds."""

    def begin(self, version: VersionId) -> None:
        if version not in self._since:
            self._news.set()

    def note(self, version: VersionId, tokens: int) -> None:
        now = self.clock.monotonic()
        before = self._passing.get(version, _Passing(Want(), 0.0))
        want = before.want if before.until > now else Want()
        self._passing[version] = _Passing(Want(want.requests + 1, want.tokens + tokens), now + PASSING_S)
        self.begin(version)

    def late(self, lag_s: float) -> None:
        """Take a delay of the loop, by the part that it computed: one more gateway would wait for a core, too."""
        before, self._computed_s = self._computed_s, self.computed_s()
        own_part = min(1.0, max(0.0, self._computed_s - before) / (lag_s + TICK_S))
        self.loop_lag_s = max(self.loop_lag_s, lag_s * own_part)

    async def run(self, teller: Teller) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._news.wait()
            self._news.clear()
            await self.tell(teller)

    async def tell(self, teller: Teller, *, has_ended: bool = False) -> None:
        report = self._report(has_ended=has_ended)
        try:
            async with timeout(WITHIN_S):
                await teller.tell(report)
        except (StoreUnavailable, TimeoutError):
            self._since.clear()
            self.away()

    def _report(self, *, has_ended: bool) -> GatewayReport:
        now, lag_s = self.clock.monotonic(), self.loop_lag_s
        if not self._number:
            self._began, self._cpu_from_s = self.clock.now(), self.cpu_s()
        self._number, self.loop_lag_s = self._number + 1, 0.0
        self._passing = {version: one for version, one in self._passing.items() if one.until > now}
        wanted = {version: one.want for version, one in self._passing.items()} | dict(self.held())
        self._since = {version: self._since.get(version, now) for version in wanted}
        return GatewayReport(
            gateway=self.gateway,
            began=self._began,
            number=self._number,
            counted=() if self.is_runner else self.counted(),
            held=tuple(
                HeldNow(
                    version=version,
                    requests=want.requests,
                    tokens=want.tokens,
                    oldest_s=now - self._since[version],
                )
                for version, want in wanted.items()
            ),
            loop_lag_s=0.0 if self.is_runner else lag_s,
            cpu_s=0.0 if self.is_runner else self.cpu_s() - self._cpu_from_s,
            is_runner=self.is_runner,
            has_ended=has_ended,
        )
