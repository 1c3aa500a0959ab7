"""What each tenant has had of the device, and which are about. Pure.

Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM'96) over predicted seconds of compute by weight: a text of 256
tokens counts as what it takes, not as one item. Whoever was away comes back at the present: being away earns nothing.

Trade-off: predicted seconds are charged as a batch starts, so that who comes meanwhile finds the order right; what it
takes beyond that is charged to nobody.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.batching.items import Waiting

ABOUT_S = 30.0
"""A tenant counts as about so long after its last item came."""
MOST_TENANTS = 1024


class Tenants:
    """Of one device."""

    def __init__(self) -> None:
        self._had: dict[TenantId, float] = {}
        self._seen: OrderedDict[TenantId, float] = OrderedDict()
        self._now = 0.0

    def came(self, tenant: TenantId, at: float) -> None:
        """An item of this tenant has come; the platform's own are nobody's neighbours."""
        if tenant == PLATFORM:
            return
        self._seen[tenant] = at
        self._seen.move_to_end(tenant)
        if len(self._seen) > MOST_TENANTS:
            gone, _ = self._seen.popitem(last=False)
            self._had.pop(gone, None)

    def are_several(self, now: float) -> bool:
        """Tell whether more than one is about."""
        second = next(islice(reversed(self._seen.values()), 1, 2), None)
        return second is not None and now - second <= ABOUT_S

    def had(self, tenant: TenantId) -> float:
        """Return its place, least first: what it has had by weight, no less than who is served now."""
        return max(self._now, self._had.get(tenant, 0.0))

    def charge(self, taken: Sequence[Waiting], each_s: float) -> None:
        """A batch of these has started, and takes so many seconds for each."""
        present = min(self.had(one.item.tenant) for one in taken)
        for one in taken:
            tenant = one.item.tenant
            if tenant != PLATFORM:
                self._had[tenant] = self.had(tenant) + each_s / one.item.weight
        self._now = present
