"""Processes answers in slices, so that fast streams do not delay another stream's next token.

One read can be 256 KiB, a thousand tokens. Once an iteration of the event loop has read enough, all but small reads are
deferred, and so is the rest of a large one.

Trade-off: an answer of megabytes takes some more iterations.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE_BYTES = 24 << 10
"""Bytes of about a hundred tokens: half a millisecond from the parser to the callers' sockets."""
SMALL_BYTES = 1 << 10
"""Bytes of a few tokens, which cost as much as deferring them."""
BUSY_S = 0.002
"""Seconds of an iteration for larger reads; starting requests may take as many again."""


class Deferred(Protocol):
    def pass_slice(self) -> bool:
        """Return whether another one may follow at once."""
        ...


class ReadScheduler:
    """One event loop's connections; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Deferred] = deque()
        self._began: float | None = None
        """The second of this turn's first large read; None before it."""

    def takes(self, size: int) -> bool:
        if size <= SMALL_BYTES:
            return True
        now = self._clock()
        if self._began is None:
            self._begin(now)
            return True
        return now - self._began < BUSY_S

    def wait(self, connection: Deferred) -> None:
        self._waiting.append(connection)
        if self._began is None:
            self._begin(self._clock())

    def _begin(self, now: float) -> None:
        self._began = now
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._began = None
        if not self._waiting:
            return
        self._begin(now := self._clock())
        while self._waiting and self._clock() - now < BUSY_S:
            connection = self._waiting.popleft()
            if connection.pass_slice():
                self._waiting.append(connection)
