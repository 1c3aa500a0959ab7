"""Hours of batch work by the clock on the wall, over both changes of a year."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.domain.fleet.table import RoutingTable, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.jobs.job import Reason
from penstock.domain.tenancy.batch_hours import parsed
from penstock.domain.tenancy.tenant import Plan, Tenant
from penstock.gateway.routing.current import CurrentTable
from penstock.jobs.hours import ClosedTenants, is_open, seen
from tests.support.samples.calls import VERSION

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = "20:00-06:00 Europe/Berlin"


def at(day: str, *, fold: int = 0) -> float:
    """Return the Unix second of a local time in Berlin; the later one of two with ``fold``."""
    return datetime.fromisoformat(day).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("hours", "day", "expected"),
    [
        ("", "2026-11-25 12:00", True),
        (NIGHTS, "2026-11-25 19:59", False),
        (NIGHTS, "2026-11-25 20:00", True),
        (NIGHTS, "2026-11-26 05:59", True),
        (NIGHTS, "2026-11-26 06:00", False),
        ("mon-fri 20:00-06:00 Europe/Berlin", "2026-11-28 05:00", True),
        ("mon-fri 20:00-06:00 Europe/Berlin", "2026-11-28 21:00", False),
        ("sat-sun 00:00-24:00 Europe/Berlin", "2026-11-28 00:00", True),
        ("sat-sun 00:00-24:00 Europe/Berlin", "2026-11-29 23:59", True),
        ("sat-sun 00:00-24:00 Europe/Berlin", "2026-11-30 00:00", False),
    ],
)
def test_hours_open_and_close(hours: str, day: str, *, expected: bool) -> None:
    """Open at its first minute, closed at its last; a night belongs to the day on which it begins."""
    assert is_open(parsed(hours), at(day)) is expected


def test_hours_that_summer_time_skips_do_not_open() -> None:
    """On 29 March 2026 there is no 02:30 in Berlin: hours within it never come, a whole night is an hour shorter."""
    night = range(int(at("2026-03-28 20:00")), int(at("2026-03-29 06:00")), 60)
    assert not any(is_open(parsed("02:00-03:00 Europe/Berlin"), second) for second in night)
    assert sum(is_open(parsed(NIGHTS), second) for second in night) == 9 * 60


def test_hours_that_winter_time_repeats_are_open_twice() -> None:
    """On 25 October 2026 02:30 comes twice in Berlin, and batch work runs both times."""
    night = range(int(at("2026-10-24 20:00")), int(at("2026-10-25 06:00")), 60)
    assert sum(is_open(parsed("02:00-03:00 Europe/Berlin"), second) for second in night) == 2 * 60
    assert is_open(parsed("02:00-03:00 Europe/Berlin"), at("2026-10-25 02:30", fold=1))
    assert sum(is_open(parsed(NIGHTS), second) for second in night) == 11 * 60


def test_a_tenants_hours_close_its_claims() -> None:
    """Of many tenants only those with closed hours are left out; a new plan counts at once."""
    night, day = (
        Tenant(id=TenantId("night"), name="", plan=Plan(batch_hours=NIGHTS)),
        Tenant(id=TenantId("day"), name=""),
    )
    tenants, plans = (night, day), ClosedTenants()
    assert plans.at(at("2026-11-25 12:00"), tenants).closed == {"night"}
    assert plans.at(at("2026-11-25 20:00"), tenants).closed == set()
    assert plans.at(at("2026-11-25 12:00"), tenants).closed == {"night"}
    assert plans.at(at("2026-11-25 12:00"), (day,)).closed == set()


def test_what_is_closed_or_outside_is_told_if_no_row_says_more() -> None:
    """A row's own reason comes first, then hours, then pools; a version that the table lacks has no pool."""
    worker = WorkerEntry(id=WorkerId("w"), url="", state=WorkerState.LOADING, pools=("on-demand",))
    one, table = replace(VERSION, workers=(worker,)), CurrentTable()
    table.swap(RoutingTable(number=1, made_at=0.0, versions=(one,)), 0.0)

    def told(reason: Reason, *versions: VersionId, **plan: str) -> Reason:
        return seen(reason, Plan(**plan), at("2026-11-25 12:00"), versions, table)  # type: ignore[arg-type]

    assert told(Reason.BUDGET, one.id, batch_hours=NIGHTS, batch_pools="spot") is Reason.BUDGET
    assert told(Reason.NONE, one.id, batch_hours=NIGHTS, batch_pools="spot") is Reason.HOURS
    assert told(Reason.NONE, one.id, batch_pools="spot") is Reason.POOL
    assert told(Reason.NONE, one.id, batch_pools="spot,on-demand") is Reason.NONE
    assert told(Reason.NONE, one.id, VersionId("other@1"), batch_pools="spot") is Reason.NONE
    assert told(Reason.NONE, batch_pools="spot") is told(Reason.NONE, one.id) is Reason.NONE
