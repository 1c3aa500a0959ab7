"""Which part of the engine each tenant is entitled to: by weight among those that are active, all of it when alone.

A tenant is active from its request on, while anything of it waits or runs, and for half a minute after it was last
seen: whoever only pauses between two requests finds its part free. Everything here costs O(1) per request.

Trade-off: a tenant that never comes back keeps its part of the engine empty for that half minute.
"""

from collections import OrderedDict
from dataclasses import dataclass

from penstock.domain.ids import TenantId

ACTIVE_S = 30.0
"""A tenant counts as active, and keeps its share of the seats free, so long after it was last seen."""


@dataclass(slots=True)
class _Tenant:
    weight: float
    seen: float
    guests: int = 0


class Shares:
    """The active tenants, least recently seen first."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._tenants: OrderedDict[TenantId, _Tenant] = OrderedDict()
        self._weight = 0.0

    def seen(self, tenant: TenantId, weight: float, now: float) -> None:
        """A tenant has sent a request."""
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant(weight, now)
            self._weight += weight
        else:
            self._weight += weight - known.weight
            known.weight, known.seen = weight, now
            self._tenants.move_to_end(tenant)

    def enter(self, tenant: TenantId) -> None:
        """A request of this tenant waits or runs from now on."""
        self._tenants[tenant].guests += 1

    def leave(self, tenant: TenantId) -> None:
        """A request of this tenant is gone."""
        self._tenants[tenant].guests -= 1

    def of(self, weight: float) -> float:
        """Return the part (0..1] of an active tenant of this weight."""
        return weight / max(self._weight, weight)

    def forget(self, now: float) -> None:
        """Drop the silent from the front; whoever still has something here counts as seen now."""
        while self._tenants:
            name, tenant = next(iter(self._tenants.items()))
            if tenant.seen >= now - ACTIVE_S:
                return
            if tenant.guests:
                tenant.seen = now
                self._tenants.move_to_end(name)
            else:
                del self._tenants[name]
                self._weight -= tenant.weight
