"""Which part of the engine each tenant may fill beside others: by its weight among all that are active, or by its
weight in its lane and the lane's among the active ones, whichever is more; all of it when alone.

A tenant is active from its request on, while anything of it waits or runs, and for half a minute after it was last
seen: whoever only pauses between two requests finds its part free. Everything here costs O(1) per request.

Trade-off: a tenant that never comes back keeps its part of the engine empty for that half minute. By lanes alone the
part would be exact under full load, and one interactive reader would keep four fifths of the engine empty.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass

from penstock.domain.ids import TenantId
from penstock.domain.standing import Standing
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.fair_queue import LANE_WEIGHT

ACTIVE_S = 30.0
"""A tenant counts as active, and keeps its share of the seats free, so long after it was last seen."""


@dataclass(slots=True)
class _Tenant:
    weight: float
    lane: Standing
    seen: float
    requests: int = 0


class Shares:
    """The active tenants, least recently seen first; a tenant counts in the lane of its latest request with a share."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._tenants: OrderedDict[TenantId, _Tenant] = OrderedDict()
        self._weight = 0.0
        self._lanes: dict[Standing, float] = {}
        self._many: Counter[Standing] = Counter()

    def seen(self, work: Work, now: float) -> None:
        """A tenant has sent a request."""
        known = self._tenants.pop(work.tenant, None)
        requests, lane = 0, work.standing
        if known is not None:
            self._uncount(known)
            requests = known.requests
            lane = known.lane if work.standing.is_spare else work.standing
        self._tenants[work.tenant] = fresh = _Tenant(work.weight, lane, now, requests)
        self._weight += fresh.weight
        self._many[lane] += 1
        self._lanes[lane] = self._lanes.get(lane, 0.0) + fresh.weight

    def enter(self, tenant: TenantId) -> None:
        """A request of this tenant waits or runs from now on."""
        self._tenants[tenant].requests += 1

    def leave(self, tenant: TenantId) -> None:
        """A request of this tenant is gone."""
        self._tenants[tenant].requests -= 1

    def count_of(self, tenant: TenantId) -> int:
        """Return how many requests of a tenant wait or run."""
        known = self._tenants.get(tenant)
        return known.requests if known is not None else 0

    @property
    def is_alone(self) -> bool:
        """True where one tenant at most is active."""
        return len(self._tenants) <= 1

    def of(self, work: Work) -> float:
        """Return the part (0..1] that this request's tenant, active or just come, may fill."""
        flat = work.weight / max(self._weight, work.weight)
        lane = LANE_WEIGHT.get(work.standing)
        if lane is None:
            return flat
        lanes = sum(LANE_WEIGHT.get(one, 0.0) for one in self._lanes if one is not work.standing)
        beside = max(self._lanes.get(work.standing, 0.0), work.weight)
        return max(flat, lane / (lane + lanes) * work.weight / beside)

    def forget(self, now: float) -> None:
        """Drop the silent from the front; whoever still has something here counts as seen now."""
        while self._tenants:
            name, tenant = next(iter(self._tenants.items()))
            if tenant.seen >= now - ACTIVE_S:
                return
            if tenant.requests:
                tenant.seen = now
                self._tenants.move_to_end(name)
            else:
                del self._tenants[name]
                self._uncount(tenant)

    def _uncount(self, tenant: _Tenant) -> None:
        self._weight -= tenant.weight
        self._many[tenant.lane] -= 1
        self._lanes[tenant.lane] -= tenant.weight
        if not self._many[tenant.lane]:
            del self._lanes[tenant.lane]
