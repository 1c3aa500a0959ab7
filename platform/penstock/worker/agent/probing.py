"""The agent's own question to its engine, asked beside the looks: one that waits delays no look.

It must not know what is asked, nor what follows from the answer.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Self


class Probing:
    """One question at a time, and not more often than every ``every_s``."""

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
        """Ask at monotonic second ``now``, if it is time and no question waits."""
        if self._asking is None and now >= self._next_at:
            self._next_at = now + self._every_s
            self._asking = asyncio.ensure_future(self._ask())

    def has_passed(self) -> bool:
        """Tell whether the last question that ended was answered in time."""
        if self._asking is not None and self._asking.done():
            self._has_passed, self._asking = self._asking.result(), None
        return self._has_passed
