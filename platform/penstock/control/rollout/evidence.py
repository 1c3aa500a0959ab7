"""Reads the gateways' evidence, counts per second, and passes each sound second once to the judges.

Every controller reads it, leading or not, at its own interval: a slow store must not delay a tick.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.fleet.versions import Catalogue
from penstock.domain.rollout.arms import ArmSecond, Told, fault
from penstock.judging.comparisons import Comparisons
from penstock.telemetry.logs import logger

KEPT_S = 120.0
LOOK_EVERY_S = 1.0
FORGET_EVERY_S = 30.0
FOLLOW_EVERY_S = 3.0


class EvidenceStore(Protocol):
    """The store of the gateways' evidence per second; every method may raise ``StoreUnavailable``."""

    async def since(self, after: int, within_s: float) -> Sequence[Told]:
        """Return seconds after id ``after``, at most ``within_s`` old, oldest first."""
        ...

    async def forget(self, older_s: float) -> None: ...


@dataclass(slots=True)
class EvidenceReader:
    store: EvidenceStore
    take: Callable[[ArmSecond, float], bool]
    """Takes a second and the Unix second of its report; False if it was not counted."""
    left_out: int = 0
    _after: int = 0
    _forgot_at: float = 0.0

    async def look(self, now: float) -> None:
        while found := await self.store.since(self._after, KEPT_S):
            for told in found:
                self._take(told)
        if now - self._forgot_at >= FORGET_EVERY_S:
            self._forgot_at = now
            await self.store.forget(KEPT_S)

    def _take(self, told: Told) -> None:
        self._after = told.id
        if told.second is None or fault(told.second):
            self.left_out += 1
        else:
            # Gateways' clocks may differ by more than a second may be late: the store's is one for all.
            self.left_out += not self.take(replace(told.second, at=floor(told.at)), told.at)


@dataclass(slots=True)
class ComparisonWatch:
    clock: Clock
    catalogue: Callable[[], Awaitable[Catalogue]]
    evidence: EvidenceReader
    comparisons: Comparisons
    _followed_at: float = float("-inf")

    async def run(self) -> None:
        is_away = False
        while True:
            try:
                await self.look()
                is_away = False
            except PenstockError as error:
                if not is_away:
                    logger().warning("evidence_not_seen", code=error.code, reason=error.message)
                is_away = True
            except Exception as error:  # noqa: BLE001  a bug here must not end the controller
                logger().error("evidence_not_seen", error_type=type(error).__name__, reason=str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        if self.clock.monotonic() - self._followed_at >= FOLLOW_EVERY_S:
            known = await self.catalogue()
            self.comparisons.follow(known.routes, {one.id: one.manifest.tier for one in known.versions})
            self._followed_at = self.clock.monotonic()
        await self.evidence.look(self.clock.now())
        for _ in self.comparisons.catch_up():
            await asyncio.sleep(0)
