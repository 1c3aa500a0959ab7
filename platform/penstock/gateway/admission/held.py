"""Estimates ``Retry-After`` for a tenant at its concurrency limit, from the mean time of its requests.

With ``c`` requests running, one ends about every ``mean / c`` seconds.

Trade-off: after minutes without an ended request the tenant's estimate is the initial one again.
"""

from collections import OrderedDict
from math import exp2

from penstock.domain.ids import TenantId

EWMA_SHARE = 0.1
"""Weight of the newest request in the mean, if no time has passed."""
HALF_LIFE_S = 60.0
"""Seconds after which half of the learned mean is replaced by the initial estimate."""
FIRST_GUESS_S = 1.0
"""Mean request time assumed for a tenant without ended requests."""


class MeanHeld:
    def __init__(self, *, most_remembered: int = 10_000) -> None:
        self._means: OrderedDict[TenantId, tuple[float, float]] = OrderedDict()
        self._most = most_remembered

    def learn(self, tenant: TenantId, held_s: float, now: float) -> None:
        mean, at = self._means.pop(tenant, (FIRST_GUESS_S, now))
        kept = (1 - EWMA_SHARE) * _aged(now - at)
        self._means[tenant] = (held_s + kept * (mean - held_s), now)
        if len(self._means) > self._most:
            self._means.popitem(last=False)

    def next_free_s(self, tenant: TenantId, slots: int, now: float) -> float:
        mean, at = self._means.get(tenant, (FIRST_GUESS_S, now))
        return (FIRST_GUESS_S + _aged(now - at) * (mean - FIRST_GUESS_S)) / slots


def _aged(age_s: float) -> float:
    return exp2(-max(0.0, age_s) / HALF_LIFE_S)
