"""May one more request of this tenant run here, and if not, when? Counted by leases, so nothing can leak alone.

This limiter sees one process: with several gateways each tenant has the bound once per gateway. That is the price of
needing no store; limits that hold across gateways come from the shared limiter.

The wait is told from the tenant's own mean request time (exponentially weighted, so it follows a change within some
tens of requests): with ``c`` requests running, one of them ends about every ``mean / c`` seconds.
"""

from dataclasses import dataclass

from penstock.domain.errors import OverLimit
from penstock.domain.ids import TenantId

EWMA_SHARE = 0.1
"""Weight of the newest request in the mean."""
FIRST_GUESS_S = 1.0
"""Mean request time of a tenant that has finished nothing yet."""


@dataclass(slots=True)
class _Count:
    running: int = 0
    mean_s: float = FIRST_GUESS_S


class ConcurrencyLimiter:
    """Running requests per tenant; a tenant without any is forgotten but for its mean."""

    def __init__(self, *, most_remembered: int = 10_000) -> None:
        """Remember at most so many tenants' means."""
        self._counts: dict[TenantId, _Count] = {}
        self._most = most_remembered

    def running(self, tenant: TenantId) -> int:
        """How many requests of this tenant hold a lease."""
        count = self._counts.get(tenant)
        return count.running if count else 0

    def enter(self, tenant: TenantId, limit: int) -> None:
        """Count one more, or raise ``OverLimit`` with the seconds until one should have ended; limit 0 is none."""
        count = self._counts.get(tenant)
        if count is None:
            count = self._remember(tenant)
        if limit and count.running >= limit:
            wait_s = count.mean_s / count.running
            raise OverLimit(f"{limit} requests of this tenant are running already", retry_after_s=wait_s)
        count.running += 1

    def leave(self, tenant: TenantId, held_s: float) -> None:
        """Count one less and learn how long it took."""
        count = self._counts[tenant]
        count.running -= 1
        count.mean_s += EWMA_SHARE * (held_s - count.mean_s)

    def _remember(self, tenant: TenantId) -> _Count:
        if len(self._counts) >= self._most:
            self._counts = {name: count for name, count in self._counts.items() if count.running}
        return self._counts.setdefault(tenant, _Count())
