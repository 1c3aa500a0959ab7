"""Answers are read in slices: streams that send as fast as they can do not stand before a neighbour's next token.

One read holds up to 256 KiB, a thousand tokens, and the event loop reads all connections with bytes before anything
else runs. So a large read waits, and any but a small one once this turn of the loop has read enough. What waits is
passed on slice by slice, one connection after another, and none of these is read meanwhile.

Trade-off: an answer of megabytes takes some turns more. Small reads never wait: they are what a stream of tokens is.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE_BYTES = 16 << 10
"""About a hundred tokens: half a millisecond from the parser to the callers' sockets."""
SMALL_BYTES = 1 << 10
"""A few tokens of a stream, which cost as much as the wait itself."""
BUSY_S = 0.002
"""Seconds of a loop's turn for larger reads; as many again may be those of starting requests."""


class Deferred(Protocol):
    def pass_slice(self) -> bool:
        """Pass a slice on; tell whether it may go on with another one."""
        ...


class ReadScheduler:
    """Decides when the bytes of one event loop's connections are passed on; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Deferred] = deque()
        self._began: float | None = None
        """The second of this turn's first large read; None before it."""

    def takes(self, size: int) -> bool:
        if size <= SMALL_BYTES:
            return True
        if size > SLICE_BYTES:
            return False
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
