"""Sends probes to the engine in a separate task: a slow probe does not delay reading the counters.

It knows neither the probe's content nor the conclusions from an answer.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self


class Probing:
    def __init__(self, ask: Callable[[], Coroutine[Any, Any, bool]], every_s: float) -> None:
        self._ask, self._every_s = ask, every_s
        self._next_at = 0.0
        self._asking: asyncio.Task[bool] | None = None
        self._has_passed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def begin(self, now: float) -> None:
        """Start a probe at monotonic second ``now``, if due and none is pending."""
        if self._asking is None and now >= self._next_at:
            self._next_at = now + self._every_s
            self._asking = asyncio.ensure_future(self._ask())

    def has_passed(self) -> bool:
        if self._asking is not None and self._asking.done():
            self._has_passed, self._asking = self._asking.result(), None
        return self._has_passed
