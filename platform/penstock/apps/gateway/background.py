"""Tasks that nobody waits for, held until they end (the loop itself holds them only weakly)."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Background:
    """A process's background tasks."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Start it."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self, within_s: float) -> None:
        """Let them end, and cancel what has not within this time."""
        if not self.tasks:
            return
        _, late = await asyncio.wait(set(self.tasks), timeout=within_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=within_s)
