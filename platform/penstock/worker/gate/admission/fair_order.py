"""The fair order: the fair queue decides who is next, each tenant's entitlement who may enter now, and a flood's
next prompt waits a moment for whoever is expected back.
"""

from collections.abc import Sequence

from penstock.domain.ids import RequestId
from penstock.worker.gate.admission.cost import Fit, Work
from penstock.worker.gate.admission.entitlement import Entitlement
from penstock.worker.gate.admission.expected import MOST_WAIT_S, Expected, Patience
from penstock.worker.gate.admission.fair_queue import FairQueue
from penstock.worker.gate.admission.pace import Stay
from penstock.worker.gate.admission.seats import Seats

WAIT_PART = 0.5
"""The part of the time its answer takes that a flood's next prompt waits for somebody else at most: by then about half
of what runs has ended, and the engine would begin to run dry."""


class FairOrder:
    """Implements the door's ``Order``."""

    def __init__(self, queue: FairQueue, seats: Seats, stay: Stay) -> None:
        """Take an empty queue, the engine's seats and how long it keeps requests."""
        self.queue = queue
        self.look_at: float | None = None
        self._seats, self._stay = seats, stay
        self._entitled = Entitlement(seats)
        self._expected, self._patience = Expected(), Patience()
        self._now = 0.0
        self._shared_at = 0

    def __len__(self) -> int:
        """Requests waiting."""
        return len(self.queue)

    @property
    def waiting_cost(self) -> float:
        """Tokens of service waiting."""
        return self.queue.waiting_cost

    def seen(self, work: Work, now: float) -> None:
        """Count the tenant as active, and as here."""
        self._entitled.seen(work, now)
        self._expected.came(work.tenant, now)

    def ahead_of(self, work: Work) -> float:
        """Return what is before it, and until a seat comes free; nothing where it could enter at once.

        Where its tenant has reserved the seat, only its own work is before it.
        """
        if self._entitled.takes_its_turn(work) or (not len(self.queue) and self._entitled.fits(work) is Fit.YES):
            return 0.0
        if self._entitled.reserved.covers(work):
            return self.queue.waiting_of(work) + self._seats.mean_cost
        return self.queue.ahead_of(work) + self._seats.mean_cost

    def share_of(self, work: Work) -> float | None:
        """Return its tenant's part of the engine, by weight among those that are about."""
        return self._entitled.active.share_of(work)

    def ahead_without_own(self, work: Work) -> float | None:
        """Return what the others have waiting, and until a seat comes free."""
        ahead = self.queue.waiting_without(work)
        return None if ahead is None else ahead + self._seats.mean_cost

    def until_room(self, work: Work) -> float:
        """Return what has to be done before the queue has room for it."""
        return self.queue.until_room(work)

    def push(self, work: Work) -> Sequence[Work] | None:
        """Let it wait; where the queue is full, in place of waiting work of lower standing."""
        evicted = self.queue.make_room(work)
        if evicted is not None:
            self._entitled.active.come(work.tenant)
            self.queue.push(work, self._slots_of(work))
            for victim in evicted:
                self._entitled.active.leave(victim.tenant)
        return evicted

    def next(self, now: float) -> Work | None:
        """Take who has reserved what is free, then the least served request that fits."""
        self.look_at, self._now = None, now
        work = self._next()
        if self.look_at is None:
            self._patience.rest(now)
        return work

    def remove(self, request: RequestId) -> None:
        """Take a waiting request out."""
        work = self.queue.remove(request)
        if work is not None:
            self._entitled.active.leave(work.tenant)

    def correct(self, work: Work, delta_cost: float) -> None:
        """Charge the difference to the tenant and its lane."""
        self.queue.correct(work, delta_cost)

    def finish(self, work: Work, now: float) -> None:
        """Close the request's account; with its tenant's last one here, expect the tenant back."""
        active = self._entitled.active
        active.leave(work.tenant)
        self.queue.finish(work)
        if not active.is_here(work.tenant):
            self._expected.left(work.tenant, work.standing, now)

    def _next(self) -> Work | None:
        size = self._seats.size
        if not len(self.queue) or (self._seats.is_full and not (size.displaces or size.takes_turns)):
            return None
        self._entitled.forget(self._now)
        self._share_anew()
        for tenant in self._entitled.reserved.owed():
            head = self.queue.head_of(tenant)
            if head is not None and self._entitled.reserved.covers(head):
                return self.queue.pop_apart(head) if self._seats.room_for(head) is Fit.YES else None
        return self.queue.pop(self._fits)

    def _share_anew(self) -> None:
        """Where others are about than before, who holds seats and waits for more has another share of them.

        Only their order hangs on it, so they are as few as there are seats.
        """
        if self._shared_at != self._entitled.active.changes:
            self._shared_at = self._entitled.active.changes
            for tenant, _ in self._seats.holders():
                self.queue.share(tenant, self._slots_of)

    def _slots_of(self, work: Work) -> float:
        """Return its tenant's share of the slots, of as many as there are for requests like this one."""
        return self._entitled.active.share_of(work) * self._seats.places_for(work)

    def _fits(self, work: Work) -> Fit:
        fit = self._entitled.fits(work, is_owed=self.queue.is_owed(work))
        return Fit.AFTER_YOU if fit is Fit.YES and self._waits_for_somebody(work) else fit

    def _waits_for_somebody(self, head: Work) -> bool:
        """Tell whether this prompt, of a flood, stands back for a moment; ``look_at`` is when to ask again."""
        if not self._entitled.may_leave_free or not self.queue.is_flood(head):
            return False
        most_s = min(MOST_WAIT_S, WAIT_PART * self._stay.of(head.cost))
        soon = self._expected.soon(most_s, self._now)
        first = next((one for one in soon if self.queue.would_go_first(one.tenant, one.standing, head)), None)
        if first is None:
            return False
        lasts_until = self._patience.lasts_until(most_s, self._now)
        if lasts_until is None:
            return False
        self.look_at = min(first.left_at + most_s, lasts_until)
        return True
