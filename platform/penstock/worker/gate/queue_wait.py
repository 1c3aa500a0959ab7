"""A request's wait at the door: until it may enter, is rejected, its client leaves, or its time is over.

Its time: its tier's queue timeout, or its own deadline.

Who enters at once costs one call and no task. Who waits has its body read meanwhile (so that a client that leaves is
noticed) and handed to the engine afterwards.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.domain.waited import AT_ONCE, TENANT_QUEUE, Waited
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.door import Door, Shed
from penstock.worker.gate.in_flight import Message

Receive = Callable[[], Awaitable[Message]]

WORD_S = 0.05
"""So long before its deadline a request that still waits is sent away: its gateway is told why."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The request does not enter: why (None where its client left), and how long it would have waited."""

    why: Shed | None
    wait_s: float
    is_own: bool = False
    """Only its own tenant's requests were in its way."""

    @property
    def fields(self) -> dict[str, object]:
        """What the gateway is told of it (README, "Wire between gateway and gate")."""
        return {"retry_after_s": round(self.wait_s, 3), "reason": TENANT_QUEUE if self.is_own else None}


FOR_GOOD = Rejection(None, 0.0)
"""Nothing is known of when it could enter."""


class QueueWait:
    """One request at one door."""

    __slots__ = (
        "_came_at",
        "_clock",
        "_door",
        "_has_waited",
        "_kept",
        "_mark",
        "_outcome",
        "_predicted_s",
        "_receive",
        "_waiting",
        "_work",
        "waited",
    )

    def __init__(self, door: Door, work: Work, receive: Receive, clock: Callable[[], float]) -> None:
        """Take the door, the request with its deadline in the clock's seconds, and the way its body comes."""
        self._door, self._work, self._receive, self._clock = door, work, receive, clock
        self._kept: deque[Message] = deque()
        self._outcome: asyncio.Future[Rejection | None] = asyncio.get_running_loop().create_future()
        self._came_at, self._mark = clock(), door.before.mark(work.tenant)
        self._waiting, self._predicted_s = len(door.order), door.expected_wait_s(work)
        self._has_waited = False
        self.waited = AT_ONCE
        """How it fared, once it may enter or has to go."""

    async def until_admitted(self) -> Rejection | None:
        """Return None when the request may enter: then it must ``leave`` the door in the end."""
        self._door.arrive(self._work, self._came_at, lambda: self._settle(None), self._reject)
        if self._outcome.done():
            return self._outcome.result()
        self._has_waited = True
        listening = asyncio.ensure_future(self._listen())
        try:
            await asyncio.wait(
                (self._outcome, listening),
                timeout=max(0.0, self._until - self._clock()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._outcome.done():
                return self._outcome.result()
            self.waited = self._fared()
            is_own = self._door.waits_for_own(self._work)
            wait_s = self._door.give_up(self._work.request, self._clock())
            if listening.done():
                return Rejection(None, 0.0)
            if self._work.start_by and self._work.start_by <= self._work.deadline_at - WORD_S:
                return Rejection(Shed.FULL, wait_s, is_own=is_own)
            return Rejection(Shed.LATE, 0.0, is_own=is_own)
        except asyncio.CancelledError:
            self._door.leave(self._work.request, self._clock())
            raise
        finally:
            listening.cancel()

    @property
    def _until(self) -> float:
        """The second until which it may wait."""
        work = self._work
        last = work.deadline_at - WORD_S
        return min(last, work.start_by or last)

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
        is_at_once = not self._has_waited and why in (Shed.FULL, Shed.LATE)
        is_own = self._door.waits_for_own(self._work)
        is_own = is_own or (is_at_once and self._door.is_own(self._work, self._came_at))
        self._settle(Rejection(why, wait_s, is_own=is_own))

    def _settle(self, outcome: Rejection | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
            if self._predicted_s or self._has_waited or outcome is not None:
                self.waited = self._fared()

    def _fared(self) -> Waited:
        door, tenant = self._door, self._work.tenant
        return Waited(
            predicted_s=self._predicted_s,
            waited_s=self._clock() - self._came_at,
            share=door.order.share_of(self._work),
            waiting=self._waiting,
            tenants=self._mark.tenants,
            ahead=door.before.since(self._mark, tenant),
        )
