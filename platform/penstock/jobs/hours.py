"""The hours in which a plan lets batch work run, by the clock on the wall of its time zone, and its pools. Pure.

Hours that a change to summer time skips do not open; those that it repeats are open twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.jobs.job import Reason
from penstock.domain.tenancy.batch_hours import BatchHours, Span, parsed
from penstock.domain.tenancy.tenant import Plan, Tenant

LOOK_S = 1.0
"""Seconds for which an answer stands: hours are of minutes, and claims come many times a second."""


class ClosedTenants:
    """Remembers for a second which tenants have no open hours for batch work."""

    def __init__(self) -> None:
        self._tenants: Sequence[Tenant] = ()
        self._hours: list[tuple[TenantId, BatchHours | None]] = []
        self._until = 0.0
        self.closed = frozenset[TenantId]()
        """Tenants with hours in their plan, and none of them open."""
        self.confined: Mapping[TenantId, frozenset[str]] = {}
        """Pools by tenant, if its plan names any."""

    def at(self, now: float, tenants: Sequence[Tenant]) -> Self:
        """Return this, as it is at Unix second ``now``."""
        if tenants is not self._tenants:
            self._tenants, self._until = tenants, 0.0
            self._hours = [(one.id, parsed(one.plan.batch_hours)) for one in tenants if one.plan.batch_hours]
            self.confined = {one.id: one.plan.pools for one in tenants if one.plan.batch_pools}
        if not self._until - LOOK_S <= now < self._until:
            self._until = now + LOOK_S
            self.closed = frozenset([tenant for tenant, hours in self._hours if not is_open(hours, now)])
        return self


class Workers(Protocol):
    def is_outside(self, versions: Iterable[VersionId], pools: frozenset[str]) -> bool:
        """Tell whether each of these versions has workers, and none in these pools."""
        ...


def seen(reason: Reason, plan: Plan, at: float, versions: Iterable[VersionId], workers: Workers) -> Reason:
    """Return why queued work waits: rows know pauses and budgets, but neither hours nor pools."""
    if reason is not Reason.NONE:
        return reason
    if not is_open(parsed(plan.batch_hours), at):
        return Reason.HOURS
    return Reason.POOL if workers.is_outside(versions, plan.pools) else Reason.NONE


def is_open(hours: BatchHours | None, at: float) -> bool:
    """Tell whether batch work may begin at Unix second ``at``; without hours it always may."""
    if hours is None:
        return True
    local = datetime.fromtimestamp(at, tz=UTC).astimezone(hours.zone)
    minute, day = local.hour * 60 + local.minute, local.weekday()
    yesterday = (local - timedelta(days=1)).weekday()
    return any(_holds(span, minute, day, yesterday) for span in hours.spans)


def _holds(span: Span, minute: int, day: int, yesterday: int) -> bool:
    if span.begin_min < span.end_min:
        return day in span.days and span.begin_min <= minute < span.end_min
    return (day in span.days and minute >= span.begin_min) or (yesterday in span.days and minute < span.end_min)
