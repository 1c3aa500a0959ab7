"""The fair order: the fair queue decides who is next, each tenant's entitlement who may enter now, and a flood's
next prompt waits a moment for whoever is expected back. Where the engine has adapters, their slots decide before that
which of its requests a tenant would start.
"""

from collections.abc import Sequence

from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.gate.admission.adapter_slots import AdapterSlots
from penstock.worker.gate.admission.cost import Fit, Work
from penstock.worker.gate.admission.entitlement import Entitlement
from penstock.worker.gate.admission.expected import MOST_WAIT_S, Expected, Patience
from penstock.worker.gate.admission.fair_queue import FairQueue, oldest
from penstock.worker.gate.admission.flow import Flow
from penstock.worker.gate.admission.pace import Stay
from penstock.worker.gate.admission.seats import Seats

WAIT_PART = 0.5
"""The part of the time its answer takes that a flood's next prompt waits for somebody else at most: by then about half
of what runs has ended, and the engine would begin to run dry."""


class FairOrder:
    """Implements the door's ``Order``."""

    def __init__(self, queue: FairQueue, seats: Seats, stay: Stay, slots: AdapterSlots | None = None) -> None:
        self.queue = queue
        self.look_at: float | None = None
        self._seats, self._stay, self._slots = seats, stay, slots
        self._entitled = Entitlement(seats)
        self._expected, self._patience = Expected(), Patience()
        self._now = 0.0
        self._shared_at = 0

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def waiting_cost(self) -> float:
        return self.queue.waiting_cost

    def seen(self, work: Work, now: float) -> None:
        """Count the tenant as active, and as here."""
        self._now = now
        if self._slots is not None and work.adapter:
            self._slots.residents.wish(work.adapter, work.tenant, now)
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

    def hold_s(self, work: Work) -> float:
        """Return how long it waits for its adapter."""
        if self._slots is None or not work.adapter:
            return 0.0
        return self._slots.wait_s(work.adapter, self._now, self._stay.of(work.cost))

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
            if self._slots is not None and work.adapter:
                self._slots.residents.came(work.adapter, work.tenant, self._now)
            self.queue.push(work, self._slots_of(work))
            for victim in evicted:
                self._left(victim)
        return evicted

    def next(self, now: float) -> Work | None:
        """Take who has reserved what is free, then the least served request that fits."""
        self.look_at, self._now = None, now
        work = self._next()
        if self.look_at is None:
            self._patience.rest(now)
        if self._slots is not None:
            self._seat(work, self._slots)
        return work

    def remove(self, request: RequestId) -> None:
        """Take a waiting request out."""
        work = self.queue.remove(request)
        if work is not None:
            self._left(work)

    def correct(self, work: Work, delta_cost: float) -> None:
        """Charge the difference to the tenant and its lane."""
        self.queue.correct(work, delta_cost)

    def finish(self, work: Work, now: float) -> None:
        """Close the request's account; with its tenant's last one here, expect the tenant back."""
        active = self._entitled.active
        active.leave(work.tenant)
        self.queue.finish(work)
        if self._slots is not None and work.adapter:
            self._slots.leave(work.adapter)
        if not active.is_here(work.tenant):
            self._expected.left(work.tenant, work.standing, now)

    def _left(self, work: Work) -> None:
        """One waits no more, and did not enter."""
        self._entitled.active.leave(work.tenant)
        if self._slots is not None and work.adapter:
            self._wanted_less(work, self._slots)

    def _seat(self, work: Work | None, slots: AdapterSlots) -> None:
        """Count who enters in its slot; where nobody does, somebody may be waiting for a moment."""
        if work is not None and work.adapter:
            slots.enter(work.adapter, self._now)
            self._wanted_less(work, slots)
        if slots.look_at is not None:
            self.look_at = slots.look_at if self.look_at is None else min(self.look_at, slots.look_at)
        slots.look_at = None

    def _wanted_less(self, work: Work, slots: AdapterSlots) -> None:
        if slots.residents.gone(work.adapter, work.tenant):
            slots.gave_up(work.adapter)

    def _pick(self, flow: Flow) -> Work:
        if self._slots is None:
            return oldest(flow)
        return flow.oldest(lambda adapter: self._may_join(adapter, flow.tenant))

    def _may_join(self, adapter: VersionId, tenant: TenantId) -> bool:
        """Tell whether an adapter may be in the engine's batch now: the platform checks those that are new."""
        return self._slots is None or not adapter or self._slots.ask(adapter, self._now, checks=tenant == PLATFORM)

    def _next(self) -> Work | None:
        size = self._seats.size
        if not len(self.queue) or (self._seats.is_full and not (size.displaces or size.takes_turns)):
            return None
        self._entitled.forget(self._now)
        self._share_anew()
        for tenant in self._entitled.reserved.owed():
            head = self.queue.head_of(tenant, self._pick)
            if head is not None and self._entitled.reserved.covers(head) and self._may_join(head.adapter, tenant):
                return self.queue.pop_apart(head) if self._seats.room_for(head) is Fit.YES else None
        return self.queue.pop(self._fits, self._pick)

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
        if work.adapter and not self._may_join(work.adapter, work.tenant):
            return Fit.NO_SLOT
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
