"""Counters come back from the ledger."""

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.budget import day
from penstock.domain.tenancy.ledger import Opening, close
from penstock.domain.tenancy.limits import Measure
from penstock.domain.tenancy.tenant import KeyRing, Plan, Priority, Tenant
from penstock.domain.tokens import Usage
from penstock.gateway.admission.draws import Need, draws
from penstock.gateway.upkeep.accounting import rebuild
from tests.support.clock import ManualClock
from tests.twins.ledger import MemoryLedger

RING = KeyRing(tenants=(Tenant(id=TenantId("t"), name="T", plan=Plan(spend_per_day=MicroUsd(100))),))
PRICE = Price(
    prompt_per_mtok=MicroUsd(1_000_000), cached_per_mtok=MicroUsd(1_000_000), output_per_mtok=MicroUsd(1_000_000)
)
NEED = Need(version=VersionId("m@1"), tokens=10, cost=MicroUsd(10), stream=False)


def opening(number: int, at: float) -> Opening:
    return Opening(
        request=RequestId(f"r{number}"),
        tenant=TenantId("t"),
        key=KeyId("k"),
        version=VersionId("m@1"),
        digest="d",
        api="chat",
        priority=Priority.STANDARD,
        prompt_tokens=10,
        price=PRICE,
        opened_at=at,
    )


async def test_a_gateway_that_forgot_everything_counts_on(clock: ManualClock) -> None:
    """After a restart the budget holds exactly what the ledger leaves of it, and requests are admitted up to that."""
    ledger, fresh, now = MemoryLedger(), MemoryLimits(clock), clock.now()
    usage = Usage(prompt_tokens=10, output_tokens=25, exact=True)
    await ledger.append([close(opening(i, now), Outcome.OK, usage, gpu_s=0.0, now=now) for i in range(2)])
    assert await rebuild(ledger, fresh, RING, now) == 1
    wanted = draws(RING.scopes(), NEED, now)
    granted = [(await fresh.reserve(RequestId(f"n{i}"), wanted, 10.0)).granted for i in range(4)]
    assert granted == [True, True, True, False]


async def test_a_settlement_on_its_way_to_the_ledger_is_not_lost(clock: ManualClock) -> None:
    """Rebuilding beside running requests never lowers a counter."""
    ledger, store, now = MemoryLedger(), MemoryLimits(clock), clock.now()
    await store.reserve(RequestId("r"), draws(RING.scopes(), NEED, now), 10.0)
    await store.settle(RequestId("r"), {Measure.SPEND: 10})
    await rebuild(ledger, store, RING, now)
    meter = f"tenant:t:spend:{day(now).name}"
    assert await store.spent([meter]) == {meter: 10}
