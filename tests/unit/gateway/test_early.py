"""What is refused before its body is read."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from penstock.domain.errors import OverLimit, Overloaded, Rejected
from penstock.domain.fleet.table import Route, RoutingTable, Share
from penstock.domain.ids import Alias, VersionId
from penstock.domain.tenancy.tenant import Plan, Principal
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.early import MOST_VERSIONS, EarlyRefusal
from penstock.gateway.routing.current import CurrentTable
from tests.support.samples.calls import VERSION, principal

DEGRADES = principal(plan=Plan(degrade_model=Alias("small")))


def checked(*, full: bool = False, over: bool = False, versions: int = 1) -> EarlyRefusal:
    """Return the check over that many versions, with workers that are full for the tenant, or limits it is over."""
    present = [replace(VERSION, id=VersionId(f"toy{number}@{number:012x}")) for number in range(versions)]
    shares = tuple(Share(version=one.id, weight=10_000 // versions) for one in present)
    table = CurrentTable()
    route = Route(alias=Alias("toy"), shares=shares)
    table.swap(RoutingTable(number=1, made_at=0.0, routes=(route,), versions=tuple(present)), 0.0)

    def by_workers(asked: Collection[VersionId], demand: Demand) -> Overloaded | None:
        assert (len(asked), demand) == (versions, ANY)
        return Overloaded(retry_after_s=3.0) if full else None

    async def by_limits(_: Principal, asked: Sequence[VersionId]) -> None:
        assert list(asked) == sorted(one.id for one in present)
        if over:
            raise OverLimit(retry_after_s=1.0)

    return EarlyRefusal(table=table, by_workers=by_workers, by_limits=by_limits)


@pytest.mark.parametrize(
    ("check", "who", "error"),
    [
        (checked(), principal(), None),
        (checked(full=True), principal(), Overloaded),
        (checked(over=True), principal(), OverLimit),
        (checked(full=True), DEGRADES, None),
        (checked(full=True, over=True), DEGRADES, OverLimit),
        (checked(full=True, over=True, versions=MOST_VERSIONS), principal(), Overloaded),
        (checked(full=True, over=True, versions=MOST_VERSIONS + 1), principal(), None),
    ],
)
async def test_full_workers_and_limits_refuse_early(
    check: EarlyRefusal, who: Principal, error: type[Rejected] | None
) -> None:
    """A tenant that degrades is refused early by its limits alone, and a request for many versions by nothing."""
    if error is None:
        await check.check(who, "toy", ANY)
        return
    with pytest.raises(error):
        await check.check(who, "toy", ANY)
