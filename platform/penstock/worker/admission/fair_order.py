"""The fair order: the fair queue decides who is next, each tenant's entitlement who may enter now."""

from collections.abc import Sequence

from penstock.domain.ids import RequestId
from penstock.worker.admission.cost import Fit, Work
from penstock.worker.admission.entitlement import Entitlement
from penstock.worker.admission.fair_queue import FairQueue
from penstock.worker.admission.seats import Seats


class FairOrder:
    """Implements the door's ``Order``."""

    def __init__(self, queue: FairQueue, seats: Seats) -> None:
        """Take an empty queue and the engine's seats."""
        self.queue = queue
        self._seats = seats
        self._entitled = Entitlement(seats)

    def __len__(self) -> int:
        """Requests waiting."""
        return len(self.queue)

    @property
    def waiting_cost(self) -> float:
        """Tokens of service waiting."""
        return self.queue.waiting_cost

    def seen(self, work: Work, now: float) -> None:
        """Count the tenant as active."""
        self._entitled.seen(work, now)

    def ahead_of(self, work: Work) -> float:
        """Return what is before its turn, and until a seat comes free; nothing where it could enter at once.

        Where its tenant has reserved the seat, only its own work is before it.
        """
        if not len(self.queue) and self._entitled.fits(work) is Fit.YES:
            return 0.0
        if self._entitled.reserved.covers(work):
            return self.queue.waiting_of(work) + self._seats.mean_cost
        return self.queue.ahead_of(work) + self._seats.mean_cost

    def until_room(self, work: Work) -> float:
        """Return what has to be done before the queue has room for it."""
        return self.queue.until_room(work)

    def push(self, work: Work) -> Sequence[Work] | None:
        """Let it wait; where the queue is full, in place of waiting work of lower standing."""
        evicted = self.queue.make_room(work)
        if evicted is not None:
            self._entitled.shares.enter(work.tenant)
            self.queue.push(work)
            for victim in evicted:
                self._entitled.shares.leave(victim.tenant)
        return evicted

    def next(self, now: float) -> Work | None:
        """Take who has reserved what is free, then the least served request that fits."""
        if not len(self.queue) or self._seats.is_full:
            return None
        self._entitled.forget(now)
        for tenant in self._entitled.reserved.owed():
            head = self.queue.head_of(tenant)
            if head is not None and self._entitled.reserved.covers(head):
                return self.queue.pop_apart(head) if self._seats.room_for(head) is Fit.YES else None
        return self.queue.pop(self._entitled.fits)

    def remove(self, request: RequestId) -> None:
        """Take a waiting request out."""
        work = self.queue.remove(request)
        if work is not None:
            self._entitled.shares.leave(work.tenant)

    def correct(self, work: Work, delta_cost: float) -> None:
        """Charge the difference to the tenant and its lane."""
        self.queue.correct(work, delta_cost)

    def finish(self, work: Work) -> None:
        """Close the request's account."""
        self._entitled.shares.leave(work.tenant)
        self.queue.finish(work)
