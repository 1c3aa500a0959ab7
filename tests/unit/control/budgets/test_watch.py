"""The watch over budgets: alarms once, gauges bounded, shared counters healed."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from penstock.connectors.memory.limits import MemoryLimits
from penstock.control.budgets.watch import MOST_SHOWN, BudgetWatch
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.budget import budgets
from penstock.domain.tenancy.ledger import Spent
from penstock.domain.tenancy.tenant import KeyRing, Plan, Tenant
from penstock.telemetry import names
from penstock.telemetry.logs import ALLOWED_FIELDS
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.patience import patient
from tests.support.samples.ledger_rows import row
from tests.twins.audit import MemoryAudit
from tests.twins.ledger import MemoryLedger


def tenant(name: str, cap: int) -> Tenant:
    return Tenant(id=TenantId(name), name=name, plan=Plan(spend_per_day=MicroUsd(cap)))


@dataclass(kw_only=True)
class Ground:
    clock: ManualClock
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    audit: MemoryAudit = field(default_factory=MemoryAudit)
    metrics: Metrics = field(default_factory=Metrics)
    ring: KeyRing = field(default_factory=lambda: KeyRing(tenants=(tenant("acme", 100),)))
    leads: bool = True

    def watch(self, shared: MemoryLimits | None = None) -> BudgetWatch:
        return BudgetWatch(
            clock=self.clock,
            ledger=self.ledger,
            ring=self.read_ring,
            log=self.audit,
            metrics=self.metrics,
            shared=shared,
            acts=lambda: self.leads,
        )

    async def read_ring(self) -> KeyRing:
        return self.ring

    def gauges(self) -> dict[tuple[str, str], float]:
        family = next(iter(self.metrics.gauge(names.BUDGET_USED_RATIO).collect()))
        return {(one.labels["scope"], one.labels["window"]): one.value for one in family.samples}


@pytest.fixture
def ground(clock: ManualClock) -> Ground:
    return Ground(clock=clock)


async def test_each_threshold_is_told_once(ground: Ground) -> None:
    """The log event and the audit row come with the look that sees it first, and never again, also after a restart."""
    watch, now = ground.watch(), ground.clock.now()
    with capture_logs() as logs:
        assert await watch.look() == 0
        await ground.ledger.append([row("r1", at=now, cost=85)])
        assert await watch.look() == 2
        assert await watch.look() == 0
        assert await ground.watch().look() == 0
        await ground.ledger.append([row("r2", at=now, cost=30)])
        assert await ground.watch().look() == 2
    told = [(entry["scope"], entry["percent"], entry["spent_micro_usd"]) for entry in logs]
    assert told == [
        ("tenant:acme", 50, 85),
        ("tenant:acme", 80, 85),
        ("tenant:acme", 95, 115),
        ("tenant:acme", 100, 115),
    ]
    assert all(set(entry) - {"log_level"} <= ALLOWED_FIELDS for entry in logs)
    assert [act.what for act in await ground.audit.newest(9)] == ["budget.threshold"] * 4


async def test_a_new_day_has_alarms_of_its_own(ground: Ground) -> None:
    """What was told yesterday does not silence today."""
    await ground.ledger.append([row("r1", at=ground.clock.now(), cost=60)])
    assert await ground.watch().look() == 1
    ground.clock.advance(86_400)
    assert await ground.watch().look() == 0
    await ground.ledger.append([row("r2", at=ground.clock.now(), cost=60)])
    assert await ground.watch().look() == 1


async def test_gauges_are_bounded_and_current(ground: Ground) -> None:
    """The fullest budgets have names, the others share one, and a budget that is gone shows nothing any more."""
    many = tuple(tenant(f"t{i:03}", 1000 + i) for i in range(MOST_SHOWN + 20))
    ground.ring = KeyRing(tenants=many)
    rows = [row(f"r{i}", at=ground.clock.now(), cost=500, tenant=one.id) for i, one in enumerate(many)]
    await ground.ledger.append(rows)
    await ground.watch().look()
    shown = ground.gauges()
    assert len(shown) == MOST_SHOWN + 1
    assert shown["tenant:t000", "day"] == pytest.approx(0.5)
    assert shown["other", "day"] == pytest.approx(500 / (1000 + MOST_SHOWN))
    ground.ring = KeyRing(tenants=(tenant("acme", 100),))
    await ground.watch().look()
    assert ground.gauges() == {("tenant:acme", "day"): 0.0}


async def test_shared_counters_follow_the_ledger_up(ground: Ground) -> None:
    """What a killed gateway never settled is counted by the next look."""
    meters = MemoryLimits(ground.clock)
    await ground.ledger.append([row("r1", at=ground.clock.now(), cost=40)])
    await ground.watch(meters).look()
    meter = budgets(ground.ring.scopes(), ground.clock.now())[0].meter
    assert await meters.spent([meter]) == {meter: 40}


class Failing(MemoryLedger):
    """Away at first, then broken, then well."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def spent_in(self, period: str) -> tuple[Spent, ...]:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailable
        if self.asked == 2:
            raise ZeroDivisionError
        return await super().spent_in(period)


async def test_it_watches_on_through_every_trouble_and_only_where_it_leads(ground: Ground) -> None:
    """A store that is away and a bug are logged and tried again; a controller that stands by doesn't look."""
    ground.ledger = failing = Failing()
    ground.leads = False
    task = asyncio.create_task(ground.watch().run(every_s=0.001))
    with capture_logs() as logs:
        await asyncio.sleep(0.02)
        assert failing.asked == 0
        ground.leads = True
        async with asyncio.timeout(patient(5)):
            while failing.asked < 4:  # noqa: ASYNC110  the watch has no events
                await asyncio.sleep(0.001)
    assert [entry["event"] for entry in logs] == ["budgets_not_seen"] * 2
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
