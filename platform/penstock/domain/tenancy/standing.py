"""Who gives way for whom when there is not enough: one ladder that queue, seats, eviction and refusals all read (C5).

The gateway derives it from the tenant's plan and from whether the request ran over its quota, never from what a caller
says; it travels in the signed ticket. Nothing here knows queues: those who shed sort by it.
"""

from enum import IntEnum

from penstock.domain.tenancy.tenant import Plan, Priority


class Standing(IntEnum):
    """The rungs, whoever is shed first at the bottom."""

    SHADOW = 0
    """Copies of real requests, sent to compare versions. Nobody waits for them."""
    BATCH = 1
    OVER_QUOTA = 2
    """Beyond its tenant's rate, by the tenant's wish (``OverQuota.YIELD``)."""
    FREE = 3
    PAID = 4
    INTERACTIVE = 5
    """Paid, and somebody watches it come: shed last."""

    @property
    def is_spare(self) -> bool:
        """True where it runs only on what nobody else wants, and so has no share and no starvation bound."""
        return self in _SPARE


_SPARE = frozenset({Standing.SHADOW, Standing.OVER_QUOTA})


def standing_of(plan: Plan, *, over_quota: bool = False) -> Standing:
    """Return the standing of a request under this plan; a class other than batch counts for paying tenants."""
    if plan.priority is Priority.BATCH:
        return Standing.BATCH
    if over_quota:
        return Standing.OVER_QUOTA
    if not plan.paid:
        return Standing.FREE
    return Standing.INTERACTIVE if plan.priority is Priority.INTERACTIVE else Standing.PAID
