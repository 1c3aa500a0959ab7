"""Work that a runner does beside running jobs: validation of batches, deliveries, retention.

Each one is a loop of its own, which its process restarts after any failure: none of them delays or ends another.
"""

import asyncio
from typing import Protocol

from penstock.domain.clock import Clock


class Upkeep(Protocol):
    @property
    def name(self) -> str:
        """The loop's name in metrics and logs."""
        ...

    @property
    def every_s(self) -> float:
        """Seconds between two steps."""
        ...

    async def step(self, now: float) -> None:
        """Do what is due at Unix second ``now``."""
        ...


async def keep(work: Upkeep, clock: Clock) -> None:
    while True:
        await work.step(clock.now())
        await asyncio.sleep(work.every_s)
