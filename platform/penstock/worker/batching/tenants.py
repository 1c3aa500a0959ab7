"""Device time received by each tenant, and the active tenants. Pure.

Start-time fair queueing over predicted compute seconds by weight: a text of 256 tokens counts by its time, not as one
item.

Trade-off: predicted seconds are charged at a batch's start, so that later items are ordered correctly; time beyond them
to no tenant.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.fairness.turns import VirtualTimes
from penstock.worker.batching.items import Waiting

ACTIVE_S = 30.0
"""Seconds that a tenant counts as active after its last request: a tenant that reads an answer keeps its share."""
MOST_TENANTS = 1024


class Tenants:
    def __init__(self) -> None:
        self._times: VirtualTimes[TenantId] = VirtualTimes()
        self._seen: OrderedDict[TenantId, float] = OrderedDict()

    def came(self, tenant: TenantId, at: float) -> None:
        """The platform's own items take part in no sharing."""
        if tenant == PLATFORM:
            return
        self._seen[tenant] = at
        self._seen.move_to_end(tenant)
        if len(self._seen) > MOST_TENANTS:
            gone, _ = self._seen.popitem(last=False)
            self._times.forget(gone)

    def are_several(self, now: float) -> bool:
        second = next(islice(reversed(self._seen.values()), 1, 2), None)
        return second is not None and now - second <= ACTIVE_S

    def virtual_time(self, tenant: TenantId) -> float:
        return max(self._times.now, self._times.of(tenant))

    def charge(self, taken: Sequence[Waiting], each_s: float) -> None:
        present = min(self.virtual_time(one.item.tenant) for one in taken)
        for one in taken:
            tenant = one.item.tenant
            if tenant != PLATFORM:
                self._times.resume(tenant)
                self._times.charge(tenant, each_s / one.item.weight)
        self._times.serve(present)
