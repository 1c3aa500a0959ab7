"""Refuses a request before its body is read, if its tenant's limits or its workers would refuse it anyway.

A tenant that prefers a degraded answer is not refused for its queue: its request is read, and degraded.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from penstock.domain.errors import Overloaded
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.demand import Demand
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import reachable

MOST_VERSIONS = 4
"""The most versions considered for one request: a caller that may use more is not refused early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyRefusal:
    """``by_workers``: what the workers last told this tenant; ``by_limits`` raises."""

    table: CurrentTable
    by_workers: Callable[[Collection[VersionId], Demand], Overloaded | None]
    by_limits: Callable[[Principal, Sequence[VersionId]], Awaitable[None]]

    async def check(self, who: Principal, model: str, demand: Demand) -> None:
        versions = reachable(self.table.view, who, model)
        if len(versions) > MOST_VERSIONS:
            return
        if not who.plan.degrade_model and (refusal := self.by_workers(versions, demand)) is not None:
            raise refusal
        await self.by_limits(who, sorted(versions))
