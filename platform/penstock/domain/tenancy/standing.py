"""Priority of requests when capacity is short: one order for eviction, refusals and parts of an engine (C5).

The gateway derives a request's standing from its tenant's plan and quota use, never from the request; the signed ticket
carries it.
"""

from enum import IntEnum

from penstock.domain.tenancy.tenant import Plan, Priority


class Standing(IntEnum):
    """Priority under overload: the lowest value is shed first."""

    SHADOW = 0
    """Copies of real requests, sent to compare versions. Nobody waits for them."""
    BATCH = 1
    OVER_QUOTA = 2
    """Beyond its tenant's rate, as the tenant chose (``OverQuota.YIELD``)."""
    FREE = 3
    PAID = 4
    INTERACTIVE = 5
    """Paid, and a person watches the answer: shed last."""

    @property
    def is_spare(self) -> bool:
        """True for work on idle capacity only, without a share and without a starvation bound."""
        return self in _SPARE


_SPARE = frozenset({Standing.SHADOW, Standing.OVER_QUOTA})


def standing_of(plan: Plan, *, over_quota: bool = False) -> Standing:
    """Classes other than batch count for paying tenants only."""
    if plan.priority is Priority.BATCH:
        return Standing.BATCH
    if over_quota:
        return Standing.OVER_QUOTA
    if not plan.paid:
        return Standing.FREE
    return Standing.INTERACTIVE if plan.priority is Priority.INTERACTIVE else Standing.PAID
