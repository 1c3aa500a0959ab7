"""Collects items into batches on a device behind a port. It runs the policies' timers and tasks on the event loop,
which the policies must not use.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import Self, cast

from penstock.domain.clock import Clock
from penstock.domain.errors import DeadlineInQueue, Draining
from penstock.domain.serving.report import Batched
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.faults import MemoryCap, Quarantined
from penstock.worker.batching.items import Fired, Item, Left
from penstock.worker.batching.policy import Batch, DeviceState, Policy
from penstock.worker.batching.running import Compute, Result, Runner, WaitingItem
from penstock.worker.batching.settings import BatchSettings

LEAST_LOOK_S = 1e-3
"""The shortest timer: below the event loop's resolution (milliseconds in uvloop) it would fire at once, again and
again.
"""


def _to_nobody(_: object) -> None: ...


class Batcher:
    """One device; all methods run on one event loop."""

    def __init__(
        self,
        compute: Compute,
        settings: BatchSettings,
        clock: Clock,
        note: Callable[[Fired], None] = _to_nobody,
        note_left: Callable[[Left], None] = _to_nobody,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._note, self._note_left = note, note_left
        self.computes = Computes(settings.prior, settings.max_items)
        self.policy = Policy(settings, self.computes)
        self._cap = MemoryCap(settings.max_items)
        self._runner = Runner(compute, clock, self.computes, self._cap)
        self._device = DeviceState(0, 0.0, 0.0)
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = inf
        self._looks_soon = self._closing = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._runner.open(self._settings.in_flight)
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._disarm()
        for one in _entries(self.policy.clear()):
            one.fail(Draining(), Left.CLOSING)
        try:
            await self._tasks.__aexit__(kind, error, trace)
        finally:
            self._runner.close()

    @property
    def waiting(self) -> int:
        return len(self.policy)

    async def submit(self, item: Item, told: Callable[[Batched], None] = _to_nobody) -> Result:
        """``told`` is called with the item's batch when it starts. Raises ``DeadlineInQueue`` (the item never ran),
        ``Quarantined``, ``Draining``, ``EngineError`` (the item failed alone) or ``WorkerLost``.
        """
        now = self._clock.monotonic()
        self._check(item, now)
        entry = WaitingItem(item, now, self._loop.create_future(), told, self._note_left)
        self.policy.come(entry)
        if self._device.running >= self._settings.in_flight:
            self._arm(entry.deadline_at, now)
        else:
            self._turn()
        try:
            return await entry.future
        except asyncio.CancelledError:
            if self.policy.leave(entry) and self._device.running < self._settings.in_flight:
                self._turn()
            self._note_left(Left.CANCELLED)
            raise

    def _check(self, item: Item, now: float) -> None:
        if self._closing:
            raise Draining
        if item.deadline_at and item.deadline_at <= now:
            self._note_left(Left.EXPIRED)
            raise DeadlineInQueue
        left_s = self._runner.quarantine.left_s(item.digest, now)
        if left_s:
            self._note_left(Left.QUARANTINED)
            raise Quarantined(retry_after_s=left_s)

    # -- when ------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        if self._closing:
            return
        self.policy.most_items = self._cap.most(now)
        for one in _entries(self.policy.expire(now)):
            one.fail(DeadlineInQueue(), Left.EXPIRED)
        decision = self.policy.decide(now, self._device)
        while decision.batch is not None:
            self._start(decision.batch, now)
            decision = self.policy.decide(now, self._device)
        self._arm(decision.look_at, now)

    def _arm(self, at: float, now: float) -> None:
        if at >= self._looks_at:
            return
        self._disarm()
        self._looks_at = at
        self._timer = self._loop.call_later(max(LEAST_LOOK_S, at - now), self._look_again)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._looks_at = None, inf

    def _turn(self) -> None:
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_soon(self._look_soon)

    def _look_soon(self) -> None:
        """Look once per iteration, after all its arrivals: a burst is one batch."""
        self._looks_soon = False
        self._look(self._clock.monotonic())

    def _look_again(self) -> None:
        self._timer, self._looks_at = None, inf
        self._look(self._clock.monotonic())

    # -- a batch ---------------------------------------------------------------------------

    def _start(self, batch: Batch, now: float) -> None:
        for late in _entries(batch.late):
            late.fail(DeadlineInQueue(), Left.LATE)
        taken = _entries(batch.taken)
        for one in taken:
            one.told(Batched(size=len(taken), trigger=batch.trigger, waited_s=now - one.came_at))
        device, seconds = self._device, self.computes.p50(batch.key, len(taken))
        free_at = max(now, device.free_at) if device.running else now
        self._device = DeviceState(device.running + 1, now, free_at + seconds)
        self._tasks.create_task(self._run(taken, self._fired(batch, now)))

    async def _run(self, taken: Sequence[WaitingItem], fired: Fired) -> None:
        try:
            self._note(replace(fired, compute_s=await self._runner.through(taken)))
        finally:
            ended = self._clock.monotonic()
            self._device = self._device._replace(running=self._device.running - 1, since=ended)
            self._look(ended)

    def _fired(self, batch: Batch, now: float) -> Fired:
        key, size = batch.key, len(batch.taken)
        costs = [one.item.cost for one in batch.taken]
        padded = max(key.bucket, *costs) * size
        return Fired(
            key=key,
            trigger=batch.trigger,
            size=size,
            most_items=self._settings.max_items,
            waits_s=tuple(now - one.came_at for one in batch.taken),
            padding_ratio=1.0 - sum(costs) / padded if padded else 0.0,
            window_s=self.policy.window_s(key, size),
            predicted_s=self.computes.p99(key, size),
            compute_s=None,
        )


def _entries(waiting: Sequence[object]) -> Sequence[WaitingItem]:
    """For mypy: only entries are ever added."""
    return cast("Sequence[WaitingItem]", waiting)
