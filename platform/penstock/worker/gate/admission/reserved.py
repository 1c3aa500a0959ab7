"""Capacity kept for paying tenants: a part of this engine's slots and KV blocks that is theirs before anybody else's.

The rule, in one sentence: of what is reserved and not in use one part in four stays free, at least one slot; the rest
is lent, and whatever comes free goes to whom it is reserved for first. A decode can't be preempted, so what is lent
comes back only when an answer ends: the part that stays free is what a reserving tenant finds at once, the rest comes
to it with the next seats that are left.

An engine learns of a reservation with the tenant's first request, and keeps it for an hour after the last. Where more
than four fifths of the engine are promised, all promises shrink in proportion, so that something is left for everybody
else; less than half a slot reserves nothing on this engine.

Trade-off: keeping all of it free would serve a burst at once and waste the engine while the tenant sleeps; lending all
of it would let a flood of long answers hold everything. Lending to short answers only needs lengths that nobody knows.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence

from penstock.domain.ids import TenantId
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.seats import NOTHING, Room, Seats

MOST_PROMISED = 0.8
"""The part of an engine that all reservations together may take."""
KEPT_FREE = 0.25
"""The part of what is reserved and unused that nobody else gets."""
REMEMBERED_S = 3600.0
"""How long after a tenant's last request its reservation holds."""


class Reserved:
    """Who has reserved what of one engine."""

    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self._promised: OrderedDict[TenantId, tuple[float, float]] = OrderedDict()
        self._parts: dict[TenantId, Room] = {}
        self._kept, self._seen = NOTHING, -1
        self._sized = seats.size

    def seen(self, work: Work, now: float) -> None:
        """A request came, with what its tenant's plan reserves today."""
        known = self._promised.pop(work.tenant, (0.0, 0.0))[0]
        if work.reserved:
            self._promised[work.tenant] = (work.reserved, now)
        if known != work.reserved:
            self._divide()

    def forget(self, now: float) -> None:
        """Give up reservations of tenants that have long been away."""
        while self._promised:
            tenant, (_, seen) = next(iter(self._promised.items()))
            if now - seen <= REMEMBERED_S or self._seats.held_by(tenant).slots:
                return
            del self._promised[tenant]
            self._divide()

    def owed(self) -> Sequence[TenantId]:
        """Return the tenants that hold fewer slots than they reserved, whoever has least of its part first."""
        if not self._parts:
            return ()
        self._resize()
        used = {tenant: self._seats.held_by(tenant).slots / part.slots for tenant, part in self._parts.items()}
        return sorted((tenant for tenant in used if used[tenant] < 1.0), key=used.__getitem__)

    def covers(self, work: Work) -> bool:
        """Tell whether the request runs on what its tenant has reserved."""
        part = self._parts.get(work.tenant)
        if part is None or work.standing.is_spare:
            return False
        return part.takes_one_more(self._seats.held_by(work.tenant), self._seats.need(work))

    @property
    def kept(self) -> Room:
        """What is kept free now."""
        if self._parts and self._seen != self._seats.changes:
            self._resize()
            self._kept, self._seen = self._unused(), self._seats.changes
        return self._kept

    def _unused(self) -> Room:
        unused = NOTHING
        for tenant, part in self._parts.items():
            held = self._seats.held_by(tenant)
            unused = unused.plus(Room(max(0.0, part.slots - held.slots), max(0.0, part.blocks - held.blocks)))
        return Room(math.ceil(KEPT_FREE * unused.slots), KEPT_FREE * unused.blocks if unused.slots else 0.0)

    def _resize(self) -> None:
        """The engine may have said meanwhile how much it has."""
        if self._sized is not self._seats.size:
            self._divide()

    def _divide(self) -> None:
        """Turn promises into slots and blocks of this engine."""
        self._sized, self._seen, self._kept = self._seats.size, -1, NOTHING
        whole, promised = self._seats.whole, sum(part for part, _ in self._promised.values())
        scale = min(1.0, MOST_PROMISED / promised) if promised else 0.0
        slots = {tenant: math.floor(part * scale * whole.slots + 0.5) for tenant, (part, _) in self._promised.items()}
        self._parts = {
            tenant: Room(slots[tenant], part * scale * whole.blocks)
            for tenant, (part, _) in self._promised.items()
            if slots[tenant]
        }
