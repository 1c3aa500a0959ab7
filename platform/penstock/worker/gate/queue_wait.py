"""A request's wait: until it may enter, is rejected, its client leaves, or its time is up.

Its time ends at its deadline, or after its tier's queue timeout, which pauses while its adapter loads. A waiting
request's body is read, to notice a disconnect.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.outcome import ADAPTER_LOADING, TENANT_KV, TENANT_QUEUE
from penstock.domain.serving.report import AT_ONCE, Adapted, Met, Report, Waited
from penstock.domain.serving.ticket import GIVEN_UP_S
from penstock.worker.gate.asgi import Message, Receive
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.constants import LOOK_S
from penstock.worker.gate.queueing.work import Work


@dataclass(frozen=True, slots=True)
class QueueRefusal:
    why: Shed | None
    wait_s: float = 0.0
    reason: str | None = None
    """The obstacle if it is no lack of capacity: the tenant's own requests, or the adapter's load."""

    @property
    def fields(self) -> dict[str, object]:
        """Return the fields for the gateway (docs/reference/wire.md)."""
        return {"retry_after_s": round(self.wait_s, 3), "reason": self.reason}


FOR_GOOD = QueueRefusal(None)
"""The expected wait if none is known."""


class AdapterWait:
    """The kind of a wait for an adapter: for its load, or for a slot in the batch.

    It is decided on arrival: for an adapter in memory that needs no swap the wait is zero.
    """

    __slots__ = ("_adapter", "_came_at", "_met", "_slots")

    def __init__(self, slots: AdapterSlots, work: Work, now: float) -> None:
        self._slots, self._adapter, self._came_at = slots, work.adapter, now
        if not slots.residents.has(work.adapter):
            self._met = Met.LOADED
        else:
            self._met = Met.QUEUED if slots.wait_s(work.adapter, now, 1.0) else Met.HIT

    def ended(self, now: float) -> Adapted:
        if self._met is Met.LOADED:
            waited_s = self._slots.residents.held_s(self._adapter, self._came_at, now)
        elif self._met is Met.QUEUED:
            waited_s = min(now, self._slots.since(self._adapter, now)) - self._came_at
        else:
            waited_s = 0.0
        return Adapted(met=self._met, waited_s=max(0.0, waited_s))


class QueueWait:
    def __init__(self, queue: AdmissionQueue, work: Work, receive: Receive, clock: Callable[[], float]) -> None:
        self._queue, self._work, self._receive, self._clock = queue, work, receive, clock
        self._kept: deque[Message] = deque()
        self._outcome: asyncio.Future[QueueRefusal | None] = asyncio.get_running_loop().create_future()
        self._came_at, self._mark = clock(), queue.entered.mark(work.tenant)
        self._waiting, self._predicted_s = len(queue), queue.expected_wait_s(work, self._came_at)
        self._has_waited = False
        slots = queue.adapters if work.adapter else None
        self._adapter = AdapterWait(slots, work, self._came_at) if slots is not None else None
        reading_s = queue.forecast.reading_s(work)
        self.first_token_s = None if reading_s is None else self._predicted_s + reading_s
        """The time to the first token as it was predicted on arrival; None without a step model."""
        self.waited = AT_ONCE
        """How it fared, once it may enter or has to go."""

    @property
    def report(self) -> Report:
        adapter = self._adapter
        met = adapter.ended(self._came_at + self.waited.waited_s) if adapter is not None else None
        return Report(waited=self.waited, adapted=met)

    async def until_admitted(self) -> QueueRefusal | None:
        """Return None when the request may enter, after which the caller must ``leave`` the queue, else the refusal."""
        self._queue.arrive(self._work, self._came_at, lambda: self._settle(None), self._reject)
        if self._outcome.done():
            return self._outcome.result()
        self._has_waited = True
        listening = asyncio.ensure_future(self._listen())
        try:
            await self._until_over(listening)
            return self._outcome.result() if self._outcome.done() else self._over(has_left=listening.done())
        except asyncio.CancelledError:
            self._queue.leave(self._work.request, self._clock())
            raise
        finally:
            listening.cancel()

    async def _until_over(self, listening: asyncio.Task[None]) -> None:
        until = -math.inf
        while (later := min(self._last, self._start_by)) > until and not (self._outcome.done() or listening.done()):
            until = later
            await asyncio.wait(
                (self._outcome, listening),
                timeout=max(0.0, until - self._clock()),
                return_when=asyncio.FIRST_COMPLETED,
            )

    def _over(self, *, has_left: bool) -> QueueRefusal:
        self.waited = self._fared()
        reason, is_queued = self._reason(), self._start_by <= self._last
        wait_s = self._queue.give_up(self._work.request, self._clock())
        if has_left:
            return FOR_GOOD
        if is_queued:
            return QueueRefusal(Shed.FULL, wait_s, reason)
        return QueueRefusal(Shed.LATE, wait_s if reason == ADAPTER_LOADING else 0.0, reason)

    @property
    def _last(self) -> float:
        return self._work.deadline_at - GIVEN_UP_S

    @property
    def _start_by(self) -> float:
        """Return the latest start as known now: an adapter's load extends it."""
        work, now = self._work, self._clock()
        if not work.start_by:
            return math.inf
        by = work.start_by + self._queue.forecast.held_s(work, self._came_at, now)
        return max(by, now + LOOK_S) if self._queue.forecast.waits_for_load(work) else by

    def _reason(self) -> str | None:
        if self._queue.forecast.waits_for_load(self._work):
            return ADAPTER_LOADING
        return TENANT_QUEUE if self._queue.forecast.waits_for_own(self._work) else None

    async def receive(self) -> Message:
        return self._kept.popleft() if self._kept else await self._receive()

    async def _listen(self) -> None:
        while True:
            message = await self._receive()
            self._kept.append(message)
            if message["type"] == "http.disconnect":
                return

    def _reject(self, why: Shed, wait_s: float) -> None:
        if self._has_waited or why not in (Shed.FULL, Shed.LATE):
            self._settle(QueueRefusal(why, wait_s, TENANT_KV if why is Shed.KV_PART else self._reason()))
            return
        queue, work, now = self._queue, self._work, self._came_at
        is_for_load = why is Shed.LATE and queue.forecast.is_for_load(work, now)
        is_own = not is_for_load and (queue.forecast.waits_for_own(work) or queue.is_own(work, now))
        reason = ADAPTER_LOADING if is_for_load else TENANT_QUEUE if is_own else None
        self._settle(QueueRefusal(why, wait_s, reason))

    def _settle(self, outcome: QueueRefusal | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
            if self._predicted_s or self._has_waited or outcome is not None:
                self.waited = self._fared()

    def _fared(self) -> Waited:
        queue, tenant = self._queue, self._work.tenant
        return Waited(
            predicted_s=self._predicted_s,
            waited_s=self._clock() - self._came_at,
            share=queue.share_of(self._work),
            waiting=self._waiting,
            tenants=self._mark.tenants,
            ahead=queue.entered.since(self._mark, tenant),
        )
