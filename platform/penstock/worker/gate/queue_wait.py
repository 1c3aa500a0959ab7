"""A request's wait at the door: until it may enter, is rejected, its client leaves or its deadline passes.

Who enters at once costs one call and no task. Who waits has its body read meanwhile (so that a client that leaves is
noticed) and handed to the engine afterwards.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.door import Door, Shed
from penstock.worker.gate.in_flight import Message

Receive = Callable[[], Awaitable[Message]]


@dataclass(frozen=True, slots=True)
class Rejection:
    """The request does not enter: why (None where its client left), and how long it would have waited."""

    why: Shed | None
    wait_s: float


class QueueWait:
    """One request at one door."""

    __slots__ = ("_clock", "_door", "_kept", "_outcome", "_receive", "_work")

    def __init__(self, door: Door, work: Work, receive: Receive, clock: Callable[[], float]) -> None:
        """Take the door, the request with its deadline in the clock's seconds, and the way its body comes."""
        self._door, self._work, self._receive, self._clock = door, work, receive, clock
        self._kept: deque[Message] = deque()
        self._outcome: asyncio.Future[Rejection | None] = asyncio.get_running_loop().create_future()

    async def until_admitted(self) -> Rejection | None:
        """Return None when the request may enter: then it must ``leave`` the door in the end."""
        self._door.arrive(self._work, self._clock(), lambda: self._settle(None), self._reject)
        if self._outcome.done():
            return self._outcome.result()
        listening = asyncio.ensure_future(self._listen())
        try:
            await asyncio.wait(
                (self._outcome, listening),
                timeout=max(0.0, self._work.deadline_at - self._clock()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._outcome.done():
                return self._outcome.result()
            self._door.leave(self._work.request, self._clock())
            return Rejection(None if listening.done() else Shed.LATE, 0.0)
        except asyncio.CancelledError:
            self._door.leave(self._work.request, self._clock())
            raise
        finally:
            listening.cancel()

    async def receive(self) -> Message:
        """Return what came while waiting, then what comes."""
        return self._kept.popleft() if self._kept else await self._receive()

    async def _listen(self) -> None:
        """Keep what comes; end when the client has left."""
        while True:
            message = await self._receive()
            self._kept.append(message)
            if message["type"] == "http.disconnect":
                return

    def _reject(self, why: Shed, wait_s: float) -> None:
        self._settle(Rejection(why, wait_s))

    def _settle(self, outcome: Rejection | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
