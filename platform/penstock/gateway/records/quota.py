"""The rate of kept records of a tenant's requests that cost nothing: refused, or ended before a token. Pure.

A flood of them must not push other records off the disk. Trade-off: some of a flood can't be explained; they were
mostly refused for the same reason.
"""

from collections import OrderedDict

PER_S = 10.0
AT_ONCE = 200.0
MOST_TENANTS = 4096


class RefusalQuota:
    """A bucket for each tenant; those that were refused longest ago are forgotten first, with a full one."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, tenant: str, now: float) -> bool:
        """Tell whether one more of this tenant's is kept, and count it."""
        left, at = self._left.pop(tenant, (AT_ONCE, now))
        left = min(AT_ONCE, left + PER_S * (now - at))
        takes = left >= 1.0
        self._left[tenant] = (left - takes, now)
        if len(self._left) > MOST_TENANTS:
            self._left.popitem(last=False)
        return takes
