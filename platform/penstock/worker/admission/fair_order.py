"""The fair order: the fair queue decides who is next, and each tenant's part of the engine who may enter now."""

from collections.abc import Sequence

from penstock.domain.ids import RequestId
from penstock.worker.admission.cost import Fit, Work
from penstock.worker.admission.fair_queue import FairQueue
from penstock.worker.admission.seats import Seats
from penstock.worker.admission.shares import Shares


class FairOrder:
    """Implements the door's ``Order``."""

    def __init__(self, queue: FairQueue, seats: Seats) -> None:
        """Take an empty queue and the engine's seats."""
        self.queue = queue
        self._seats = seats
        self._shares = Shares()

    def __len__(self) -> int:
        """Requests waiting."""
        return len(self.queue)

    @property
    def waiting_cost(self) -> float:
        """Tokens of service waiting."""
        return self.queue.waiting_cost

    def seen(self, work: Work, now: float) -> None:
        """Count the tenant as active."""
        self._shares.seen(work.tenant, work.weight, now)

    def ahead_of(self, work: Work) -> float:
        """Return the tenant's waiting work over its share; nothing where the request could enter at once."""
        if not len(self.queue) and self._fits(work) is Fit.YES:
            return 0.0
        return self.queue.ahead_of(work) / max(self.queue.share_of(work), 1e-3)

    def push(self, work: Work) -> Sequence[Work] | None:
        """Let it wait; where the queue is full, for waiting work of worse classes."""
        evicted = self.queue.make_room(work)
        if evicted is not None:
            self._shares.enter(work.tenant)
            self.queue.push(work)
            for victim in evicted:
                self._shares.leave(victim.tenant)
        return evicted

    def next(self, now: float) -> Work | None:
        """Take the least served request that fits; parts of tenants that have gone silent are free by then."""
        self._shares.forget(now)
        return self.queue.pop(self._fits)

    def remove(self, request: RequestId) -> None:
        """Take a waiting request out."""
        work = self.queue.remove(request)
        if work is not None:
            self._shares.leave(work.tenant)

    def correct(self, work: Work, delta_cost: float) -> None:
        """Charge the difference to the tenant and its class."""
        self.queue.correct(work, delta_cost)

    def finish(self, work: Work) -> None:
        """Close the request's account."""
        self._shares.leave(work.tenant)
        self.queue.finish(work)

    def _fits(self, work: Work) -> Fit:
        return self._seats.fits(work, self._shares.of(work.weight))
