"""Computes a batch; after a failure its halves, and so on, so that a poisonous item fails alone.

Compute is a plain function of a list of items, run in threads.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import dataclass

from penstock.domain.clock import Clock
from penstock.domain.errors import BadRequest, EngineError, PenstockError, WorkerLost
from penstock.domain.serving.report import Batched
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.faults import ComputeLost, MemoryCap, OutOfMemory, Quarantine
from penstock.worker.batching.items import Item, Left, Waiting

Result = object
"""The result of one item; an exception fails this item alone."""
Compute = Callable[[Sequence[Item]], Sequence[Result]]
"""Computes a batch, in a thread. Raises ``OutOfMemory`` or ``ComputeLost``; any other error is attributed to an
item.
"""


@dataclass(slots=True, eq=False)
class WaitingItem(Waiting):
    future: asyncio.Future[Result]
    told: Callable[[Batched], None]
    note_left: Callable[[Left], None]

    def answer(self, result: Result) -> None:
        if isinstance(result, Exception):
            self.fail(result, Left.POISONED)
        elif not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception, why: Left) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.note_left(why)


@dataclass(frozen=True, slots=True)
class _Timed:
    results: Sequence[Result]
    began_at: float
    ended_at: float


class Runner:
    def __init__(self, compute: Compute, clock: Clock, computes: Computes, cap: MemoryCap) -> None:
        self._compute, self._clock, self._computes = compute, clock, computes
        self._last_ended_at = 0.0
        self.quarantine, self.cap = Quarantine(), cap

    def open(self, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="compute")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def through(self, whole: Sequence[WaitingItem]) -> float | None:
        """Return the batch's seconds, None if it failed."""
        seconds = None
        parts = [whole]
        try:
            while parts:
                part = [one for one in parts.pop() if not one.future.done()]
                outcome = await self._computed([one.item for one in part]) if part else None
                if isinstance(outcome, _Timed):
                    found_s = self._learn(part, outcome)
                    seconds = found_s if len(part) == len(whole) else seconds
                elif outcome is not None and not self._give_up(part, outcome):
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
        finally:
            for one in whole:
                one.fail(WorkerLost(), Left.LOST)
        return seconds

    async def _computed(self, items: Sequence[Item]) -> _Timed | Exception:
        try:
            return await self._loop.run_in_executor(self._threads, self._timed, items)
        except (BrokenExecutor, RuntimeError) as error:  # no thread can be had
            return ComputeLost(str(error))

    def _timed(self, items: Sequence[Item]) -> _Timed | Exception:
        began_at = self._clock.monotonic()
        try:
            results = self._compute(items)
        except Exception as error:  # noqa: BLE001  whatever a model raises ends on its items, never on the batcher
            return error
        if len(results) != len(items):
            return EngineError("The model returned a different number of results than it was given items.")
        return _Timed(results, began_at, self._clock.monotonic())

    def _learn(self, part: Sequence[WaitingItem], timed: _Timed) -> float:
        began_at = max(timed.began_at, min(self._last_ended_at, timed.ended_at))
        seconds = timed.ended_at - began_at
        self._last_ended_at = max(self._last_ended_at, timed.ended_at)
        self._computes.learn(part[0].item.key, len(part), seconds, timed.ended_at)
        self.quarantine.succeeded()
        for one, result in zip(part, timed.results, strict=True):
            one.answer(result)
        return seconds

    def _give_up(self, part: Sequence[WaitingItem], error: Exception) -> bool:
        """Fail the items if halving can't help; return whether they were failed."""
        if isinstance(error, (ComputeLost, BrokenExecutor)):
            for one in part:
                one.fail(WorkerLost(), Left.LOST)
            return True
        now = self._clock.monotonic()
        if isinstance(error, OutOfMemory):
            self.cap.halve(len(part), now)
        if len(part) > 1:
            return False
        if not isinstance(error, BadRequest):
            self.quarantine.failed_alone(part[0].item.digest, now)
        part[0].fail(_said(error), Left.OUT_OF_MEMORY if isinstance(error, OutOfMemory) else Left.POISONED)
        return True


def _said(error: Exception) -> PenstockError:
    if isinstance(error, PenstockError):
        return error
    told = EngineError()
    told.__cause__ = error
    return told
