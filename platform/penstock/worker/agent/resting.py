"""Carries out an order to sleep: close the gate, let running requests end, report when idle.

Only its deadline ends a stream; an order to serve opens the gate again.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from penstock.domain.errors import EngineError, PenstockError
from penstock.domain.fleet.worker import WorkerOrder
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.running import EngineLost

_LOOK_S = 0.05


@dataclass(slots=True)
class Desire:
    _sleep: asyncio.Event = field(default_factory=asyncio.Event)
    _serve: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._serve.set()

    def hear(self, order: WorkerOrder) -> None:
        new, old = (self._sleep, self._serve) if order is WorkerOrder.SLEEP else (self._serve, self._sleep)
        new.set()
        old.clear()

    @property
    def is_sleep(self) -> bool:
        return self._sleep.is_set()

    async def until_sleep(self) -> None:
        await self._sleep.wait()

    async def until_serve(self) -> None:
        await self._serve.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """``closed`` is called before the gate closes, ``opened`` after it has opened again."""

    desire: Desire
    client: GateClient
    closed: Callable[[], None]
    opened: Callable[[], None]

    async def unless_still(self, watching: Coroutine[Any, Any, EngineLost]) -> EngineLost | None:
        watch, still = asyncio.ensure_future(watching), asyncio.ensure_future(self._until_still())
        try:
            await asyncio.wait({watch, still}, return_when=asyncio.FIRST_COMPLETED)
            return watch.result() if watch.done() else still.result()
        finally:
            for task in (watch, still):
                task.cancel()
                with suppress(asyncio.CancelledError, PenstockError):
                    await task

    async def _until_still(self) -> None:
        while True:
            await self.desire.until_sleep()
            self.closed()
            if await self._is_still():
                return
            await self._open()
            self.opened()

    async def _is_still(self) -> bool:
        """Return False if an order to serve comes first."""
        while self.desire.is_sleep:
            with suppress(OSError, EngineError):
                if not (await self.client.rest(on=True)).inside:
                    return True
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self.desire.until_serve()
        return False

    async def _open(self) -> None:
        while True:
            with suppress(OSError, EngineError):
                await self.client.rest(on=False)
                return
            await asyncio.sleep(_LOOK_S)
