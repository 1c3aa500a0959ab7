"""Preprocesses inputs on threads, shared fairly between tenants; an input is skipped if its caller has left."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass

from penstock.domain.clock import Clock
from penstock.domain.errors import DeadlineInQueue
from penstock.domain.serving.ticket import Ticket
from penstock.worker.engines.torch.handler import Prepared
from penstock.worker.engines.torch.turns import PendingInput, ThreadTurns

Note = Callable[[float, float], None]
"""Called with the seconds that an input waited for a thread, and held it."""
Made = asyncio.Future[Prepared]
BESIDE = 2
"""Threads beyond one tenant's maximum: one for a tenant that holds none, one for outputs."""


@dataclass(frozen=True, slots=True)
class _Asked:
    work: Callable[[], Prepared]
    deadline_at: float
    came_at: float
    made: Made


def _to_nobody(_waited_s: float, _held_s: float) -> None: ...


class Preparing:
    def __init__(self, pool: Executor, most: int, clock: Clock, note: Note = _to_nobody) -> None:
        self.pool = pool
        self._clock, self._turns, self._note = clock, ThreadTurns(most), note

    def __len__(self) -> int:
        return len(self._turns)

    async def prepared(self, work: Callable[[], Prepared], ticket: Ticket) -> Prepared:
        """``DeadlineInQueue`` if no thread became free in time. A cancelled caller leaves the queue; running work keeps
        its thread until it ends.
        """
        made: Made = asyncio.get_running_loop().create_future()
        asked = _Asked(work, ticket.deadline_at, self._clock.monotonic(), made)
        waiting = PendingInput(ticket.tenant, ticket.weight, lambda: self._begin(waiting, asked))
        self._turns.come(waiting)
        self._look()
        try:
            return await made
        except asyncio.CancelledError:
            self._turns.leave(waiting)
            raise

    def at_once(self, work: Callable[[], Prepared]) -> Prepared:
        """Handing quick work to a thread and back would cost more."""
        began_at = self._clock.monotonic()
        made = work()
        self._note(0.0, self._clock.monotonic() - began_at)
        return made

    def _look(self) -> None:
        while (one := self._turns.next()) is not None:
            one.start()

    def _begin(self, waiting: PendingInput, asked: _Asked) -> None:
        made = asked.made
        if made.done() or asked.deadline_at <= self._clock.now():
            self._turns.ended(waiting, 0.0)
            if not made.done():
                made.set_exception(DeadlineInQueue())
            return
        loop, began_at = made.get_loop(), self._clock.monotonic()

        def told(running: Future[Prepared]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waits
                loop.call_soon_threadsafe(ended, running)

        def ended(running: Future[Prepared]) -> None:
            held_s = self._clock.monotonic() - began_at
            self._turns.ended(waiting, held_s)
            self._note(began_at - asked.came_at, held_s)
            _hand_over(running, made)
            self._look()

        self.pool.submit(asked.work).add_done_callback(told)


def _hand_over(running: Future[Prepared], made: Made) -> None:
    if made.done():
        return
    if running.cancelled():
        made.cancel()
    elif (error := running.exception()) is not None:
        made.set_exception(error)
    else:
        made.set_result(running.result())
