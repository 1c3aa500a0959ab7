"""Which tenants are about, and what part of the engine is each one's.

A tenant is about from its first request with a share on, while anything of it waits or runs, and for half a minute
after it was last seen: whoever only pauses between two requests finds a seat. Everything here costs O(1) per request.
"""

from collections import Counter, OrderedDict
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.fair_queue import LANE_WEIGHT, in_engine

ACTIVE_S = 30.0
"""A tenant counts as about so long after it was last seen."""


class _Tenant(NamedTuple):
    seen: float
    standing: Standing
    weight: float


class Active:
    """The tenants that are about, least recently seen first. Spare work makes nobody active: nothing is kept for it."""

    def __init__(self) -> None:
        self.changes = 0
        """Moves whenever others are about, or with other weights: shares are other ones then."""
        self._tenants: OrderedDict[TenantId, _Tenant] = OrderedDict()
        self._requests: Counter[TenantId] = Counter()
        self._many = [0] * len(Standing)
        self._weights = [0.0] * len(Standing)
        self._weight = 0.0
        self._in_engine = 0.0

    def many(self, standing: Standing) -> int:
        """Return how many of at least this standing are about."""
        return sum(self._many[standing:])

    def share_of(self, work: Work) -> float:
        """Return the part (0..1] of the engine that is this request's tenant's; none is spare work's.

        By its weight among all that are about, or in its lane and the lane's among theirs, whichever is more.
        """
        lane = LANE_WEIGHT.get(work.standing)
        if lane is None:
            return 0.0
        lanes = sum(LANE_WEIGHT.get(one, 0.0) for one in Standing if self._many[one] and one is not work.standing)
        beside = max(self._weights[work.standing], work.weight)
        return max(work.weight / max(self._weight, work.weight), lane / (lane + lanes) * work.weight / beside)

    def part_of(self, tenant: TenantId) -> float:
        """Return a tenant's part of the engine's steps, by its weight there among all about; 0 for strangers."""
        known = self._tenants.get(tenant)
        return in_engine(known.standing, known.weight) / self._in_engine if known is not None else 0.0

    def seen(self, work: Work, now: float) -> None:
        """A tenant has sent a request; it stands as its latest one with a share."""
        known = before = self._drop(work.tenant)
        if not work.standing.is_spare:
            known = _Tenant(now, work.standing, work.weight)
        if known is not None:
            self._add(work.tenant, known._replace(seen=now))
            self.changes += before is None or before[1:] != known[1:]

    def come(self, tenant: TenantId) -> None:
        """A request of this tenant waits or runs from now on."""
        self._requests[tenant] += 1

    def leave(self, tenant: TenantId) -> None:
        """One that waited or ran is gone."""
        self._requests[tenant] -= 1
        if not self._requests[tenant]:
            del self._requests[tenant]

    def is_here(self, tenant: TenantId) -> bool:
        """Tell whether a request of a tenant waits or runs."""
        return tenant in self._requests

    def has_company(self, tenant: TenantId) -> bool:
        """Tell whether a request of anybody else waits or runs, of whatever standing."""
        return len(self._requests) > (tenant in self._requests)

    @property
    def is_alone(self) -> bool:
        """True where one tenant at most is about."""
        return len(self._tenants) <= 1

    def forget(self, now: float) -> None:
        """Drop the silent from the front; whoever still has something here counts as seen now."""
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
        self._weight += tenant.weight
        self._in_engine += in_engine(tenant.standing, tenant.weight)
        self._many[tenant.standing] += 1
        self._weights[tenant.standing] += tenant.weight

    def _drop(self, name: TenantId) -> _Tenant | None:
        tenant = self._tenants.pop(name, None)
        if tenant is not None:
            self._weight = self._weight - tenant.weight if self._tenants else 0.0
            self._in_engine -= in_engine(tenant.standing, tenant.weight)
            self._many[tenant.standing] -= 1
            self._weights[tenant.standing] -= tenant.weight
        return tenant
