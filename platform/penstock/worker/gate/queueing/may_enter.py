"""Rules by which a request may enter the engine now: reservations, each standing's part, the part for returning
tenants.

All slots are used while a fitting request waits, except an eighth for tenants below their share, and slots left free by
anticipation.

Trade-off: free slots cost throughput for isolation; a tenant that returns with more requests than reserved slots waits
for the next free ones.
"""

import math

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import (
    FIRST_PREFILL_PART,
    KEPT_PART,
    MOST_OVERBOOKED_PART,
    OVERBOOKED_PART,
    PREFILL_PART,
    RESERVE_PART,
    STANDING_PART,
)
from penstock.worker.gate.queueing.shares import Active, Reserved
from penstock.worker.gate.queueing.slots import NOTHING, Room, Slots
from penstock.worker.gate.queueing.work import Fit, Work

_BOUND_FROM = {
    one: tuple(
        (rung, part) for rung, part in STANDING_PART.items() if rung is one or (rung > one and not rung.is_spare)
    )
    for one in Standing
}
"""The parts that bound a request, by standing: each contains the next, except those of spare levels."""


_FULL = frozenset({Fit.NO_ROOM, Fit.CLOSED})


class MayEnter:
    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.active = Active()
        self.reserved = Reserved(slots)

    def seen(self, work: Work, now: float) -> None:
        self.active.seen(work, now)
        self.reserved.seen(work, now)

    def forget(self, now: float) -> None:
        self.active.forget(now)
        self.reserved.forget(now)

    def fits(self, work: Work, *, is_owed: bool = True) -> Fit:
        """``is_owed``: its tenant was served no more than others."""
        if self.is_over_kv(work):
            return Fit.OVER_KV
        if self.enters_past_full(work):
            return Fit.YES
        fit = self._fit(work, is_owed=is_owed)
        if fit in _FULL and self.slots.size.time_shares:
            return Fit.OVER_SHARE
        return Fit.YES if fit in _FULL and is_owed and self._preempts(work) else fit

    def is_over_kv(self, work: Work, waiting: float = 0.0) -> bool:
        """Beyond its tenant's part of the KV blocks; alone it may. ``waiting``: blocks of its tenant's queue that count
        as held.
        """
        if not work.kv_part:
            return False
        held, most = self.slots.held_by(work.tenant), work.kv_part * self.slots.whole.blocks
        return bool(held.slots or waiting) and held.blocks + waiting + self.slots.need(work).blocks > most

    def enters_past_full(self, work: Work) -> bool:
        """True up to its tenant's share, if tenants share by time."""
        slots = self.slots
        if not slots.size.time_shares or work.standing.is_spare:
            return False
        share, most = slots.whole.times(self.active.share_of(work)), slots.whole.times(1 + MOST_OVERBOOKED_PART)
        need = slots.need(work)
        return share.takes_one_more(slots.held_by(work.tenant), need) and most.takes_one_more(slots.held, need)

    def _fit(self, work: Work, *, is_owed: bool) -> Fit:
        room = self.slots.room_for(work, prefill_part=self._prefill_part(work))
        if room is not Fit.YES or not len(self.slots) or self.reserved.covers(work):
            return room
        need = self.slots.need(work)
        if self._left(work, self._kept_for_others(work, is_owed=is_owed)).takes(need):
            return Fit.YES
        left = self._left(work, NOTHING)
        if left.slots <= 0:
            return Fit.CLOSED
        return Fit.OVER_SHARE if left.takes(need) else Fit.NO_ROOM

    @property
    def may_leave_free(self) -> bool:
        """True if anticipation may delay a flooding tenant: slots within the reserve stay free."""
        whole = self.slots.whole
        return whole.slots - self.slots.held.slots <= RESERVE_PART * whole.slots

    def _preempts(self, work: Work) -> bool:
        """True if the tenant has no request inside, and another is above its share."""
        slots, need = self.slots, self.slots.need(work)
        if not slots.size.preempts or work.standing.is_spare or slots.held_by(work.tenant).slots:
            return False
        booked, most = slots.held.plus(need), slots.whole.times(1 + OVERBOOKED_PART)
        if booked.slots > most.slots or booked.blocks > most.blocks:
            return False
        return any(self._is_over(one, held) for one, held in slots.holders())

    def _is_over(self, tenant: TenantId, held: Room) -> bool:
        return held.slots > max(1.0, self.active.part_of(tenant) * self.slots.held.slots)

    def _kept_for_others(self, work: Work, *, is_owed: bool) -> Room:
        """Return the slots for active tenants below their share; none if its own tenant is below."""
        whole, held = self.slots.whole, self.slots.held_by(work.tenant)
        share = whole.times(self.active.share_of(work))
        if is_owed and held.slots < share.slots and held.blocks <= share.blocks:
            return NOTHING
        return whole.times(max(1, math.floor(KEPT_PART * whole.slots)) / whole.slots)

    def _prefill_part(self, work: Work) -> float:
        # Spare work counts as nobody, but a copy is to meet what its original met: the prompts of others one by one.
        is_copy = work.standing is Standing.SHADOW
        if self.active.is_alone and not (is_copy and self.active.has_company(work.tenant)):
            return 1.0
        return PREFILL_PART if self.slots.held_by(work.tenant).slots else FIRST_PREFILL_PART

    def _left(self, work: Work, kept: Room) -> Room:
        """Return what is left in the engine and in each part that bounds the request.

        Each part keeps ``kept`` for the other active tenants that it bounds, of the request's standing or better.
        """
        holds, active = self.slots, self.active
        left = holds.whole.minus(holds.held).minus(self.reserved.kept)
        if kept.slots and active.others(work, max(Standing)):
            left = left.minus(kept)
        for rung, part in _BOUND_FROM[work.standing]:
            held = holds.held if rung.is_spare else holds.held_up_to(rung)
            beside = holds.whole.times(part).minus(held)
            left = left.least(beside.minus(kept) if kept.slots and active.others(work, rung) else beside)
        return self._beside_others(left) if work.standing <= Standing.BATCH else left

    def _beside_others(self, left: Room) -> Room:
        slots = self.slots
        if slots.batch_slots is None:
            return left
        return Room(min(left.slots, slots.batch_slots - slots.held_up_to(Standing.BATCH).slots), left.blocks)
