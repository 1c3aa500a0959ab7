"""How long a tenant's requests hold their slots: what a caller whose slots are full is told to wait.

Exponentially weighted, so it follows a change within some tens of requests. With ``c`` requests running, one of them
ends about every ``mean / c`` seconds.
"""

from collections import OrderedDict

from penstock.domain.ids import TenantId

EWMA_SHARE = 0.1
"""Weight of the newest request in the mean."""
FIRST_GUESS_S = 1.0
"""Mean request time of a tenant that has finished nothing yet."""


class MeanHeld:
    """Mean seconds per tenant; the least recently seen are forgotten first."""

    def __init__(self, *, most_remembered: int = 10_000) -> None:
        """Remember at most so many tenants."""
        self._means: OrderedDict[TenantId, float] = OrderedDict()
        self._most = most_remembered

    def learn(self, tenant: TenantId, held_s: float) -> None:
        """Take in one finished request."""
        mean = self._means.pop(tenant, FIRST_GUESS_S)
        self._means[tenant] = mean + EWMA_SHARE * (held_s - mean)
        if len(self._means) > self._most:
            self._means.popitem(last=False)

    def next_free_s(self, tenant: TenantId, slots: int) -> float:
        """Return the seconds until one of so many busy slots should be free."""
        return self._means.get(tenant, FIRST_GUESS_S) / slots
