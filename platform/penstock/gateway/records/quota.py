"""The rate of kept records of a tenant's free requests: refused, or ended before a token. Pure.

A flood of them must not push other records off the disk: what is beyond goes to a folder of its own.
"""

from collections import OrderedDict

PER_S = 10.0
AT_ONCE = 200.0
MOST_TENANTS = 4096


class RefusalQuota:
    """A token bucket per tenant; the stalest are forgotten first."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, tenant: str, now: float) -> bool:
        left, at = self._left.pop(tenant, (AT_ONCE, now))
        left = min(AT_ONCE, left + PER_S * (now - at))
        takes = left >= 1.0
        self._left[tenant] = (left - takes, now)
        if len(self._left) > MOST_TENANTS:
            self._left.popitem(last=False)
        return takes
