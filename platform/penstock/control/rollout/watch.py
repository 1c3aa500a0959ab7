"""Keeps the comparisons up to date, at a pace of its own: a slow store must not hold up a tick.

Every controller does it, also one that does not lead: it can answer, and knows the last minutes if it is to lead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.control.rollout.comparisons import Comparisons
from penstock.control.rollout.evidence import LOOK_EVERY_S, Evidence
from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.fleet.versions import Catalogue
from penstock.telemetry.logs import logger

FOLLOW_EVERY_S = 3.0


@dataclass(slots=True)
class ComparisonWatch:
    """Reads the evidence each second, and the routes now and then."""

    clock: Clock
    catalogue: Callable[[], Awaitable[Catalogue]]
    evidence: Evidence
    comparisons: Comparisons
    _followed_at: float = float("-inf")

    async def run(self) -> None:
        """Look until cancelled; a store that is away is asked again by the next round."""
        while True:
            try:
                await self.look()
            except PenstockError as error:
                logger().warning("evidence_not_seen", code=error.code, reason=error.message)
            except Exception as error:  # noqa: BLE001  a bug here must not end the controller
                logger().error("evidence_not_seen", error_type=type(error).__name__, reason=str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once."""
        if self.clock.monotonic() - self._followed_at >= FOLLOW_EVERY_S:
            known = await self.catalogue()
            self.comparisons.follow(known.routes, {one.id: one.manifest.tier for one in known.versions})
            self._followed_at = self.clock.monotonic()
        await self.evidence.look(self.clock.now())
        for _ in self.comparisons.catch_up():
            await asyncio.sleep(0)
