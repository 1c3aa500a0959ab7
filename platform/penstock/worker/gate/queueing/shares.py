"""Each tenant's part of the engine: its share by weight among active tenants, and its reservation.

Of reserved, unused slots a part stays free; the rest is lent, and freed slots go to tenants with reservations first.

Trade-off: running answers can't be preempted, so lent slots are returned only as answers end.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.tenants import ACTIVE_S
from penstock.worker.gate.queueing.constants import KEPT_FREE, MOST_PROMISED, RESERVATION_HOLD_S
from penstock.worker.gate.queueing.fair_queue import in_engine
from penstock.worker.gate.queueing.slots import NOTHING, Room, Slots
from penstock.worker.gate.queueing.work import Work


class _Tenant(NamedTuple):
    seen: float
    standing: Standing
    weight: float


class Active:
    """Active tenants, least recently seen first; spare requests don't make a tenant active."""

    def __init__(self) -> None:
        self.changes = 0
        """Moves whenever others are about, or with other weights: shares are other ones then."""
        self._tenants: OrderedDict[TenantId, _Tenant] = OrderedDict()
        self._requests: Counter[TenantId] = Counter()
        self._many = [0] * len(Standing)
        self._weight = 0.0

    def others(self, work: Work, up_to: Standing) -> int:
        """Count the other active tenants with a standing from the request's up to ``up_to``."""
        own = self._tenants.get(work.tenant)
        return sum(self._many[work.standing : up_to + 1]) - (own is not None and work.standing <= own.standing <= up_to)

    def share_of(self, work: Work) -> float:
        """(0..1] of the engine, by its weight there; a spare request has none."""
        own = in_engine(work.standing, work.weight)
        return 0.0 if work.standing.is_spare else own / max(self._weight, own)

    def part_of(self, tenant: TenantId) -> float:
        """Return the tenant's part of the engine's steps, by its weight there; 0 for others."""
        known = self._tenants.get(tenant)
        return in_engine(known.standing, known.weight) / self._weight if known is not None else 0.0

    def seen(self, work: Work, now: float) -> None:
        """The latest request that is not spare gives the tenant's standing."""
        known = before = self._drop(work.tenant)
        if not work.standing.is_spare:
            known = _Tenant(now, work.standing, work.weight)
        if known is not None:
            self._add(work.tenant, known._replace(seen=now))
            self.changes += before is None or before[1:] != known[1:]

    def come(self, tenant: TenantId) -> None:
        self._requests[tenant] += 1

    def leave(self, tenant: TenantId) -> None:
        self._requests[tenant] -= 1
        if not self._requests[tenant]:
            del self._requests[tenant]

    def is_here(self, tenant: TenantId) -> bool:
        return tenant in self._requests

    def has_company(self, tenant: TenantId) -> bool:
        return len(self._requests) > (tenant in self._requests)

    @property
    def is_alone(self) -> bool:
        return len(self._tenants) <= 1

    def forget(self, now: float) -> None:
        """A tenant with requests here counts as seen now."""
        while self._tenants:
            name, tenant = next(iter(self._tenants.items()))
            if tenant.seen >= now - ACTIVE_S:
                return
            self._drop(name)
            if name in self._requests:
                self._add(name, tenant._replace(seen=now))
            else:
                self.changes += 1

    def _add(self, name: TenantId, tenant: _Tenant) -> None:
        self._tenants[name] = tenant
        self._weight += in_engine(tenant.standing, tenant.weight)
        self._many[tenant.standing] += 1

    def _drop(self, name: TenantId) -> _Tenant | None:
        tenant = self._tenants.pop(name, None)
        if tenant is not None:
            own = in_engine(tenant.standing, tenant.weight)
            self._weight = self._weight - own if self._tenants else 0.0
            self._many[tenant.standing] -= 1
        return tenant


class Reserved:
    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._promised: OrderedDict[TenantId, tuple[float, float]] = OrderedDict()
        self._parts: dict[TenantId, Room] = {}
        self._kept, self._seen = NOTHING, -1
        self._sized = slots.size

    def seen(self, work: Work, now: float) -> None:
        known = self._promised.pop(work.tenant, (0.0, 0.0))[0]
        if work.reserved:
            self._promised[work.tenant] = (work.reserved, now)
        if known != work.reserved:
            self._divide()

    def forget(self, now: float) -> None:
        while self._promised:
            tenant, (_, seen) = next(iter(self._promised.items()))
            if now - seen <= RESERVATION_HOLD_S or self._slots.held_by(tenant).slots:
                return
            del self._promised[tenant]
            self._divide()

    def owed(self) -> Sequence[TenantId]:
        if not self._parts:
            return ()
        self._resize()
        used = {tenant: self._slots.held_by(tenant).slots / part.slots for tenant, part in self._parts.items()}
        return sorted((tenant for tenant in used if used[tenant] < 1.0), key=used.__getitem__)

    def covers(self, work: Work) -> bool:
        part = self._parts.get(work.tenant)
        if part is None or work.standing.is_spare:
            return False
        return part.takes_one_more(self._slots.held_by(work.tenant), self._slots.need(work))

    @property
    def kept(self) -> Room:
        if self._parts and self._seen != self._slots.changes:
            self._resize()
            self._kept, self._seen = self._unused(), self._slots.changes
        return self._kept

    def _unused(self) -> Room:
        unused = NOTHING
        for tenant, part in self._parts.items():
            held = self._slots.held_by(tenant)
            unused = unused.plus(Room(max(0.0, part.slots - held.slots), max(0.0, part.blocks - held.blocks)))
        return Room(math.ceil(KEPT_FREE * unused.slots), KEPT_FREE * unused.blocks if unused.slots else 0.0)

    def _resize(self) -> None:
        if self._sized is not self._slots.size:
            self._divide()

    def _divide(self) -> None:
        self._sized, self._seen, self._kept = self._slots.size, -1, NOTHING
        whole, promised = self._slots.whole, sum(part for part, _ in self._promised.values())
        scale = min(1.0, MOST_PROMISED / promised) if promised else 0.0
        slots = {tenant: math.floor(part * scale * whole.slots + 0.5) for tenant, (part, _) in self._promised.items()}
        self._parts = {
            tenant: Room(slots[tenant], part * scale * whole.blocks)
            for tenant, (part, _) in self._promised.items()
            if slots[tenant]
        }
