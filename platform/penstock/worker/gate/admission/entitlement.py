"""Who may enter the engine now, given its seats: what is reserved, each standing's part, each tenant's share.

A tenant alone may fill the engine but for the seats kept for better standings; beside others it is held to its share
even while they pause, so that they find a free seat when they come back. Reserved capacity goes before all of that.

Trade-off: seats kept free are throughput given up for isolation.
"""

from penstock.domain.standing import Standing
from penstock.worker.gate.admission.cost import Fit, Work
from penstock.worker.gate.admission.reserved import Reserved
from penstock.worker.gate.admission.seats import Room, Seats
from penstock.worker.gate.admission.shares import Shares

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
FIRST_PREFILL_PART = 0.5
"""The same for a tenant that has nothing inside: its prompt may join those of half a step, and is next."""

_BOUND_FROM = {
    one: tuple(
        (rung, part)
        for rung, part in STANDING_PART.items()
        if part < 1.0 and (rung is one or (rung > one and not rung.is_spare))
    )
    for one in Standing
}
"""For each standing the parts that a request of it takes from: they lie inside each other, but for the spare ones."""


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
        room = self._seats.room_for(work, prefill_part=self._prefill_part(work))
        if room is not Fit.YES or not len(self._seats) or self.reserved.covers(work):
            return room
        need, left = self._seats.need(work), self._left(work.standing)
        if left.slots <= 0:
            return Fit.CLOSED
        return Fit.YES if need.blocks <= left.blocks and self._within_share(work, need) else Fit.OVER_SHARE

    def _prefill_part(self, work: Work) -> float:
        if self.shares.is_alone:
            return 1.0
        return PREFILL_PART_BESIDE_OTHERS if self._seats.held_by(work.tenant).slots else FIRST_PREFILL_PART

    def _left(self, standing: Standing) -> Room:
        """Return what a standing may still take: of all that isn't kept, of its own part, and of those around it."""
        seats, whole, kept = self._seats, self._seats.whole, self.reserved.kept
        slots = whole.slots - seats.held.slots - kept.slots
        blocks = whole.blocks - seats.held.blocks - kept.blocks
        for rung, part in _BOUND_FROM[standing]:
            held = seats.held if rung.is_spare else seats.held_up_to(rung)
            slots = min(slots, whole.slots * part - held.slots)
            blocks = min(blocks, whole.blocks * part - held.blocks)
        return Room(slots, blocks)

    def _within_share(self, work: Work, need: Room) -> bool:
        """Tell whether the tenant stays within its share; one request at a time is always within it."""
        held = self._seats.held_by(work.tenant)
        share = max(self.shares.of(work), self.reserved.part_of(work.tenant))
        return not held.slots or self._seats.whole.times(share).takes_one_more(held, need)
