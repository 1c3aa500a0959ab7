"""Inputs become tensors on threads, in fair turns between tenants; what nobody waits for any more is never begun.

It joins the turns to the threads, and knows neither models nor batches.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress

from penstock.domain.clock import Clock
from penstock.domain.errors import DeadlineInQueue
from penstock.domain.ticket import Ticket
from penstock.worker.engines.torch.handler import Prepared
from penstock.worker.engines.torch.turns import Turns, Waiting

Made = asyncio.Future[Prepared]
BESIDE = 2
"""Threads of the pool beside those that one tenant may hold: one for whoever holds none, one for outputs."""


class Preparing:
    """Of one engine and one event loop. One tenant holds ``most`` of the pool's threads at a time."""

    def __init__(self, pool: Executor, most: int, clock: Clock) -> None:
        """Take the threads: ``most`` and ``BESIDE``."""
        self.pool = pool
        self._clock, self._turns = clock, Turns(most)

    async def prepared(self, work: Callable[[], Prepared], ticket: Ticket) -> Prepared:
        """Return what the work makes on a thread.

        Raises what it raises, and ``DeadlineInQueue`` where its turn came too late. Whoever is cancelled while it waits
        leaves the queue; what runs goes on, and keeps its thread until it ends.
        """
        made: Made = asyncio.get_running_loop().create_future()
        waiting = Waiting(ticket.tenant, ticket.weight, lambda: self._begin(waiting, work, ticket.deadline_at, made))
        self._turns.come(waiting)
        self._look()
        try:
            return await made
        except asyncio.CancelledError:
            self._turns.leave(waiting)
            raise

    def _look(self) -> None:
        while (one := self._turns.next()) is not None:
            one.start()

    def _begin(self, waiting: Waiting, work: Callable[[], Prepared], deadline_at: float, made: Made) -> None:
        if made.done() or deadline_at <= self._clock.now():
            self._turns.ended(waiting, 0.0)
            if not made.done():
                made.set_exception(DeadlineInQueue())
            return
        loop, began_at = made.get_loop(), self._clock.monotonic()

        def told(running: Future[Prepared]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waits
                loop.call_soon_threadsafe(ended, running)

        def ended(running: Future[Prepared]) -> None:
            self._turns.ended(waiting, self._clock.monotonic() - began_at)
            _hand_over(running, made)
            self._look()

        self.pool.submit(work).add_done_callback(told)


def _hand_over(running: Future[Prepared], made: Made) -> None:
    if made.done():
        return
    if running.cancelled():
        made.cancel()
    elif (error := running.exception()) is not None:
        made.set_exception(error)
    else:
        made.set_result(running.result())
