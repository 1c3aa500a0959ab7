"""Estimates ``Retry-After`` for a tenant at its concurrency limit, from the mean time of its requests.

The mean is weighted exponentially by count and by time: it follows a change within some tens of requests, and loses
half its weight in a minute. With ``c`` requests running, one of them ends about every ``mean / c`` seconds. The wait
for an engine counts.

Trade-off: a tenant of which nothing ended for minutes is told the first guess, as an unknown one.
"""

from collections import OrderedDict
from math import exp2

from penstock.domain.ids import TenantId

EWMA_SHARE = 0.1
"""Weight of the newest request in the mean, where no time has passed."""
HALF_LIFE_S = 60.0
"""After so long half of what was learned has become the first guess again."""
FIRST_GUESS_S = 1.0
"""Mean request time of a tenant that has finished nothing yet."""


class MeanHeld:
    """Mean seconds per tenant; the least recently seen are forgotten first."""

    def __init__(self, *, most_remembered: int = 10_000) -> None:
        self._means: OrderedDict[TenantId, tuple[float, float]] = OrderedDict()
        self._most = most_remembered

    def learn(self, tenant: TenantId, held_s: float, now: float) -> None:
        """Take in one request that finished at this monotonic second."""
        mean, at = self._means.pop(tenant, (FIRST_GUESS_S, now))
        kept = (1 - EWMA_SHARE) * _aged(now - at)
        self._means[tenant] = (held_s + kept * (mean - held_s), now)
        if len(self._means) > self._most:
            self._means.popitem(last=False)

    def next_free_s(self, tenant: TenantId, slots: int, now: float) -> float:
        """Return the seconds until one of these busy slots should be free."""
        mean, at = self._means.get(tenant, (FIRST_GUESS_S, now))
        return (FIRST_GUESS_S + _aged(now - at) * (mean - FIRST_GUESS_S)) / slots


def _aged(age_s: float) -> float:
    """Return the part of its weight that something so old still has."""
    return exp2(-max(0.0, age_s) / HALF_LIFE_S)
