"""Work that a runner does beside running jobs: validation of batches, deliveries, retention.

Each one is a loop of its own, which its process restarts after any failure: none of them delays or ends another.
"""

import asyncio
from typing import Protocol, runtime_checkable

from penstock.domain.clock import HeardClock


class Upkeep(Protocol):
    @property
    def name(self) -> str:
        """The name under which metrics and logs have failures of this loop."""
        ...

    @property
    def every_s(self) -> float:
        """Seconds between two steps."""
        ...

    async def step(self, now: float) -> None:
        """Do what is due at Unix second ``now``."""
        ...


@runtime_checkable
class Ending(Protocol):
    async def end(self) -> None:
        """Give back what is held; the process ends."""
        ...


async def end(work: Upkeep) -> None:
    if isinstance(work, Ending):
        await work.end()


async def keep(work: Upkeep, clock: HeardClock) -> None:
    await clock.heard.wait()
    while True:
        await work.step(clock.now())
        await asyncio.sleep(work.every_s)
