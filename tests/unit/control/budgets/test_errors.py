"""Error budgets by the ledger: bad ends freeze rollouts, few of them say nothing, and nobody to ask is no data."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from penstock.apps import slos
from penstock.control.budgets.errors import KEPT_S, REREAD_S, LedgerBudgets, RecordedBudgets
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import Ended, Forgiven, LedgerRow, hour_of
from penstock.domain.tenancy.tenant import Priority
from penstock.slo.budget import Budget
from penstock.slo.policy import RolloutPace
from tests.support.clock import ManualClock
from tests.twins.ledger import MemoryLedger

ONE, OTHER = VersionId("m@1"), VersionId("e@1")
Recorded = Callable[[Tier], Awaitable[tuple[Budget, ...]]]
VERSIONS = {ONE: Tier.CHAT, OTHER: Tier.EMBEDDING}


async def unrecorded(_: Tier) -> tuple[Budget, ...]:
    return ()


def by_ledger(ledger: MemoryLedger, clock: ManualClock, recorded: Recorded = unrecorded) -> LedgerBudgets:
    return LedgerBudgets(ledger=ledger, clock=clock, promised=slos.promised(), policy=slos.policy(), recorded=recorded)


async def ledger_with(clock: ManualClock, *counts: tuple[VersionId, Outcome, int]) -> MemoryLedger:
    """Return a ledger in which so many requests ended so just now."""
    ledger, rows = MemoryLedger(), list[LedgerRow]()
    for version, outcome, count in counts:
        for _ in range(count):
            rows.append(row(len(rows), version, outcome, clock.now()))
    await ledger.append(rows)
    return ledger


def row(number: int, version: VersionId, outcome: Outcome, at: float) -> LedgerRow:
    return LedgerRow(
        request=RequestId(f"r{number}"),
        tenant=TenantId("t"),
        key=KeyId("k"),
        version=version,
        digest="d",
        api="/v1/chat/completions",
        priority=Priority.STANDARD,
        outcome=outcome,
        prompt_tokens=1,
        cached_tokens=0,
        output_tokens=1,
        exact=True,
        gpu_s=0.1,
        cost=MicroUsd(1),
        opened_at=at,
        closed_at=at,
    )


@pytest.mark.parametrize(
    ("counts", "pace"),
    [
        ([(ONE, Outcome.OK, 9_000)], RolloutPace.FREE),
        ([(ONE, Outcome.OK, 9_000), (ONE, Outcome.CANCELLED, 900)], RolloutPace.FREE),
        ([(ONE, Outcome.OK, 9_000), (OTHER, Outcome.INTERNAL, 500)], RolloutPace.FREE),
        ([(ONE, Outcome.OK, 9_000), (ONE, Outcome.ENGINE_ERROR, 60)], RolloutPace.FROZEN),
        ([(ONE, Outcome.OK, 20), (ONE, Outcome.ENGINE_ERROR, 1)], RolloutPace.SLOW),
    ],
    ids=["good", "callers left", "another tier's", "spent", "too few to judge"],
)
async def test_the_pace_is_the_policys_word_on_what_is_left(
    clock: ManualClock, counts: Sequence[tuple[VersionId, Outcome, int]], pace: RolloutPace
) -> None:
    """Only a tier's own versions count, and only ends that are the platform's fault or good."""
    budgets = by_ledger(await ledger_with(clock, *counts), clock)
    assert (await budgets.verdict(Tier.CHAT, VERSIONS)).pace is pace


async def test_one_caller_can_not_freeze_a_tier(clock: ManualClock) -> None:
    """Failures that are known to be their caller's own spend no budget; the same number of others freezes."""
    ledger = await ledger_with(clock, (ONE, Outcome.OK, 9_000), (ONE, Outcome.ENGINE_ERROR, 360))
    own = Forgiven(hour=hour_of(clock.now()), version=ONE, outcome=Outcome.ENGINE_ERROR, requests=360)
    assert await by_ledger(ledger, clock).is_spent(Tier.CHAT, VERSIONS)
    await ledger.forgive([own])
    assert (await by_ledger(ledger, clock).verdict(Tier.CHAT, VERSIONS)).pace is RolloutPace.FREE


async def test_a_recorded_budget_freezes_where_the_ledger_knows_nothing_of_it(clock: ManualClock) -> None:
    """Latency counts where a Prometheus records it, also while the ledger is away; the worst decides."""
    ledger = Counting()
    await ledger.append([row(number, ONE, Outcome.OK, clock.now()) for number in range(9_000)])
    itl = Budget(tier="chat", objective="itl", good_ratio=0.95, period_days=28, left_ratio=-1.87, burns={})

    async def recorded(tier: Tier) -> tuple[Budget, ...]:
        return (itl,) if tier is Tier.CHAT else ()

    budgets = by_ledger(ledger, clock, recorded)
    assert (await budgets.verdict(Tier.CHAT, VERSIONS)).because == (itl,)
    assert await budgets.is_spent(Tier.CHAT, VERSIONS)
    assert not await budgets.is_spent(Tier.EMBEDDING, VERSIONS)
    ledger.is_away = True
    clock.advance(REREAD_S)
    assert await budgets.is_spent(Tier.CHAT, VERSIONS)


async def test_a_prometheus_that_is_away_has_the_last_word_for_an_hour(clock: ManualClock) -> None:
    """What it froze does not go on because it can't be asked; without one nothing is recorded."""
    itl = Budget(tier="chat", objective="itl", good_ratio=0.95, period_days=28, left_ratio=-1.87, burns={})
    told = [(itl,)]

    def read() -> tuple[Budget, ...]:
        if not told:
            raise CommandError("nobody answers")
        return told[0]

    recorded = RecordedBudgets(read=read, clock=clock)
    assert (await recorded.of(Tier.CHAT), await recorded.of(Tier.CLASSIC)) == ((itl,), ())
    told.clear()
    clock.advance(REREAD_S)
    assert await recorded.of(Tier.CHAT) == (itl,)
    clock.advance(KEPT_S)
    assert await recorded.of(Tier.CHAT) == ()
    assert await RecordedBudgets(read=tuple, clock=clock).of(Tier.CHAT) == ()


async def test_what_is_older_than_the_promises_period_is_forgiven(clock: ManualClock) -> None:
    """A budget comes back as its bad days leave the window."""
    ledger = await ledger_with(clock, (ONE, Outcome.ENGINE_ERROR, 500), (ONE, Outcome.OK, 500))
    budgets = by_ledger(ledger, clock)
    assert (await budgets.verdict(Tier.CHAT, VERSIONS)).pace is RolloutPace.FROZEN
    clock.advance(40 * 86_400.0)
    assert (await budgets.verdict(Tier.CHAT, VERSIONS)).pace is not RolloutPace.FROZEN


class Counting(MemoryLedger):
    """Counts how often it is read, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.is_away = 0, False

    async def ended(self, since: float) -> tuple[Ended, ...]:
        self.reads += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return await super().ended(since)


async def test_it_is_read_now_and_then_and_its_absence_is_no_data(clock: ManualClock) -> None:
    """A tick costs no query; a ledger that is away neither frees nor freezes."""
    ledger = Counting()
    budgets = by_ledger(ledger, clock)
    for _ in range(10):
        assert (await budgets.verdict(Tier.CHAT, VERSIONS)).pace is RolloutPace.FREE
    assert ledger.reads == 1
    clock.advance(REREAD_S)
    ledger.is_away = True
    assert (await budgets.verdict(Tier.CHAT, VERSIONS)).pace is budgets.policy.without_data
