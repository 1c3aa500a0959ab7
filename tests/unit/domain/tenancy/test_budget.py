"""Budget windows, and what the ledger says was spent in them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from penstock.domain.ids import KeyId, OrgId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.budget import Period, day, month, read
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.tenant import ApiKey, KeyRing, Org, Plan, Priority, Tenant
from tests.twins.ledger import MemoryLedger

NOON = datetime(2026, 2, 28, 12, tzinfo=UTC).timestamp()
BOTH = Plan(spend_per_day=MicroUsd(100), spend_per_month=MicroUsd(1000))
ROW = LedgerRow(
    request=RequestId("r"),
    tenant=TenantId("a"),
    key=KeyId("k1"),
    version=VersionId("m@1"),
    digest="d",
    api="chat",
    priority=Priority.STANDARD,
    outcome=Outcome.OK,
    prompt_tokens=1,
    cached_tokens=0,
    output_tokens=1,
    exact=True,
    gpu_s=0.0,
    cost=MicroUsd(10),
    opened_at=NOON,
    closed_at=NOON + 1,
)
RING = KeyRing(
    keys=(
        ApiKey(id=KeyId("k1"), tenant=TenantId("a"), secret_hash="", plan=Plan(spend_per_day=MicroUsd(40))),
        ApiKey(id=KeyId("k2"), tenant=TenantId("a"), secret_hash=""),
    ),
    tenants=(
        Tenant(id=TenantId("a"), name="A", plan=BOTH, org=OrgId("o")),
        Tenant(id=TenantId("b"), name="B", org=OrgId("o")),
        Tenant(id=TenantId("c"), name="C", plan=Plan(requests_per_min=5)),
    ),
    orgs=(Org(id=OrgId("o"), name="O", plan=BOTH),),
)


@pytest.mark.parametrize(
    ("moment", "day_name", "month_name", "days"),
    [
        (datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC), "2026-02-28", "2026-02", 28),
        (datetime(2028, 2, 1, 0, 0, 0, tzinfo=UTC), "2028-02-01", "2028-02", 29),
        (datetime(2026, 12, 31, 0, 0, 0, tzinfo=UTC), "2026-12-31", "2026-12", 31),
    ],
)
def test_windows_are_calendar_days_and_months(moment: datetime, day_name: str, month_name: str, days: int) -> None:
    """Each holds its moment, begins at midnight UTC, and is as long as the calendar says."""
    now = moment.timestamp()
    for window, name, length in ((day(now), day_name, 1), (month(now), month_name, days)):
        assert window.name == name
        assert window.span.begin <= now < window.span.end
        assert window.span.begin % 86_400 == 0
        assert window.span.end - window.span.begin == length * 86_400


async def test_each_scope_is_charged_with_what_is_below_it() -> None:
    """Key, tenant and organisation see their own requests, today's and this month's, to the micro-dollar."""
    ledger, earlier = MemoryLedger(), NOON - 2 * 86_400
    await ledger.append(
        [
            ROW,
            replace(ROW, request=RequestId("r2"), key=KeyId("k2")),
            replace(ROW, request=RequestId("r3"), tenant=TenantId("b"), key=KeyId("k3")),
            replace(ROW, request=RequestId("r4"), opened_at=earlier, closed_at=earlier),
            replace(ROW, request=RequestId("r5"), opened_at=NOON - 40 * 86_400, closed_at=NOON - 40 * 86_400),
        ]
    )
    lines = {(line.budget.scope, line.budget.window.period): line for line in await read(ledger, RING, NOON)}
    assert {at: line.spent for at, line in lines.items()} == {
        ("key:k1", Period.DAY): 10,
        ("tenant:a", Period.DAY): 20,
        ("tenant:a", Period.MONTH): 30,
        ("org:o", Period.DAY): 30,
        ("org:o", Period.MONTH): 40,
    }
    assert lines["key:k1", Period.DAY].used_ratio == pytest.approx(0.25)
    assert lines["org:o", Period.MONTH].budget.meter == "org:o:spend:2026-02"


async def test_without_budgets_the_ledger_is_not_asked() -> None:
    """No cap, no query."""

    class Forbidding(MemoryLedger):
        async def spent(self, span: object) -> tuple[()]:
            raise AssertionError(span)

    assert await read(Forbidding(), KeyRing(tenants=RING.tenants[1:]), NOON) == ()
