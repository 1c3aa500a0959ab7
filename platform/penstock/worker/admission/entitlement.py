"""Who may enter the engine now, given its seats: what is reserved, each standing's part, each tenant's share.

A tenant alone may fill the engine but for the seats kept for better standings; beside others it is held to its share
even while they pause, so that they find a free seat when they come back. Reserved capacity goes before all of that.

Trade-off: seats kept free are throughput given up for isolation.
"""

from penstock.domain.standing import Standing
from penstock.worker.admission.cost import Fit, Work
from penstock.worker.admission.reserved import Reserved
from penstock.worker.admission.seats import Room, Seats
from penstock.worker.admission.shares import Shares

STANDING_PART = {
    Standing.INTERACTIVE: 1.0,
    Standing.PAID: 0.9,
    Standing.FREE: 0.8,
    Standing.BATCH: 0.7,
    Standing.OVER_QUOTA: 0.6,
    Standing.SHADOW: 0.5,
}
"""The part of the engine that requests of a standing and of lower ones together may hold: the rest waits for better
ones. For spare standings whatever anybody holds counts: they leave room for all others to come."""

PREFILL_PART_BESIDE_OTHERS = 0.25
"""The part of a step that prompts may fill while several tenants are about. Whoever comes waits for the step that runs:
with a whole step of foreign prompts in it, that alone can double the time to a first token. Alone, a tenant may fill
its steps."""

_BOUND_FROM = {
    one: tuple((rung, part) for rung, part in STANDING_PART.items() if rung >= one and part < 1.0 and not rung.is_spare)
    for one in Standing
}
"""For each standing the parts that a request of it takes from, with what they are of."""


class Entitlement:
    """The rules of one engine."""

    def __init__(self, seats: Seats) -> None:
        """Begin with nobody known."""
        self._seats = seats
        self.shares = Shares()
        self.reserved = Reserved(seats)

    def seen(self, work: Work, now: float) -> None:
        """A request has come, whatever becomes of it."""
        self.shares.seen(work, now)
        self.reserved.seen(work, now)

    def forget(self, now: float) -> None:
        """Let go of what was kept for tenants that have been away."""
        self.shares.forget(now)
        self.reserved.forget(now)

    def fits(self, work: Work) -> Fit:
        """Tell whether the request may enter now."""
        part = PREFILL_PART_BESIDE_OTHERS if self.shares.of(work) < 1.0 else 1.0
        room = self._seats.room_for(work, prefill_part=part)
        if room is not Fit.YES or not len(self._seats) or self.reserved.covers(work):
            return room
        need = self._seats.need(work)
        if not self._seats.whole.takes_one_more(self._seats.held.plus(self.reserved.kept), need):
            return Fit.OVER_SHARE
        return Fit.YES if self._within_parts(work, need) and self._within_share(work, need) else Fit.OVER_SHARE

    def _within_parts(self, work: Work, need: Room) -> bool:
        """Tell whether the parts of its own and all better standings take one more: the parts lie inside each other."""
        whole = self._seats.whole
        spare = work.standing.is_spare
        if spare and not whole.times(STANDING_PART[work.standing]).takes_one_more(self._seats.held, need):
            return False
        rungs = _BOUND_FROM[work.standing]
        return all(whole.times(part).takes_one_more(self._seats.held_up_to(rung), need) for rung, part in rungs)

    def _within_share(self, work: Work, need: Room) -> bool:
        """Tell whether the tenant stays within its share; one request at a time is always within it."""
        held = self._seats.held_by(work.tenant)
        share = max(self.shares.of(work), self.reserved.part_of(work.tenant))
        return not held.slots or self._seats.whole.times(share).takes_one_more(held, need)
