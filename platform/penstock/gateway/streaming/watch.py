"""Watches a reply for disconnect, stall and deadline, and then closes the worker's connection.

Trade-off: for a slow client the gateway stops reading from the engine (by TCP's flow control), and the sequence keeps
its KV blocks; the stall limit bounds that time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

from penstock.domain.errors import ClientGone, DeadlineExceeded, PenstockError, ReaderTooSlow
from penstock.gateway.calls.relay import Reply, Source
from penstock.lateness.awake import Timer

LEAVES_A_TURN = 8
"""Disconnects handled in one iteration of the loop, 0.15 ms each: a thousand clients may leave at once."""


def nobody(_: float) -> None: ...


class _Leaving:
    """Disconnects beyond ``LEAVES_A_TURN`` wait for the loop's next iteration."""

    def __init__(self) -> None:
        self._left = 0
        self._waiting = deque[Callable[[], None]]()

    def add(self, leave: Callable[[], None]) -> None:
        self._waiting.append(leave)
        if self._left < LEAVES_A_TURN:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._left < LEAVES_A_TURN:
            if not self._left:
                asyncio.get_running_loop().call_soon(self._next)
            self._left += 1
            self._waiting.popleft()()

    def _next(self) -> None:
        self._left = 0
        self._go_on()


_leaving = WeakKeyDictionary[asyncio.AbstractEventLoop, _Leaving]()


class Watch:
    """Stops at most once: ``on_stop`` gets the reason, ``on_paused`` the seconds of each pause of the reader."""

    def __init__(
        self,
        reply: Reply,
        *,
        deadline_in_s: float,
        stall_s: float,
        on_stop: Callable[[PenstockError], None],
        on_paused: Callable[[float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._reply = reply
        self._on_stop: Callable[[PenstockError], None] | None = on_stop
        self._source: Source | None = None
        self._stall_s = stall_s
        self._stall: Timer | None = None
        self._on_paused = on_paused
        self._paused_at: float | None = None
        self.stopped: PenstockError | None = None
        self._deadline = self._loop.call_later(max(0.0, deadline_in_s), self._late)
        leaving = _leaving.setdefault(self._loop, _Leaving())
        reply.watch(on_gone=lambda: leaving.add(self._gone), on_pause=self._pause, on_resume=self._resume)
        if reply.gone:
            self._gone()

    def attach(self, source: Source) -> None:
        """Abort or pause the source at once if the reply is stopped or paused."""
        self._source = source
        if self.stopped is not None:
            source.abort(self.stopped)
        elif self._paused_at is not None:
            source.pause()

    def close(self) -> None:
        self._on_stop = None
        self._source = None
        self._count_pause()
        self._on_paused = nobody
        self._deadline.cancel()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def drop_source(self, error: PenstockError) -> None:
        if self._source is not None:
            self._source.abort(error)

    def _stop(self, error: PenstockError) -> None:
        if self._on_stop is None or self.stopped is not None:
            return
        self.stopped = error
        self.drop_source(error)
        self._on_stop(error)

    def _gone(self) -> None:
        self._stop(ClientGone())

    def _late(self) -> None:
        self._stop(DeadlineExceeded())

    def _stalled(self) -> None:
        self._stop(ReaderTooSlow())

    def _pause(self) -> None:
        if self._on_stop is None:
            return
        self._paused_at = self._loop.time()
        if self._source is not None:
            self._source.pause()
        if self._stall is None:
            self._stall = Timer(self._stall_s, self._stalled)

    def _resume(self) -> None:
        self._count_pause()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self._source is not None:
            self._source.resume()

    def _count_pause(self) -> None:
        if self._paused_at is not None:
            self._on_paused(self._loop.time() - self._paused_at)
            self._paused_at = None
