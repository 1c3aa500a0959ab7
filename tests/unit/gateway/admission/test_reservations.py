"""Money is exact and nothing leaks, whatever becomes of a request."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence

import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.errors import ExceedsLimit, OverBudget, OverLimit, PenstockError, StoreUnavailable
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.ledger import LedgerRow, Opening, close
from penstock.domain.tenancy.limits import Draw, LimitStore, Measure, MeterDecision
from penstock.domain.tenancy.tenant import OverQuota, Plan, Priority
from penstock.domain.tokens import Usage
from penstock.gateway.admission.draws import Need, Scope, draws
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.reservations import OVER_QUOTA, Reservation, ReservationRequest, Reservations
from penstock.gateway.calls.lease import Lease, Settlement
from penstock.gateway.listener.errors import response_of
from tests.support.clock import ManualClock

DOLLAR_A_TOKEN = Price(
    prompt_per_mtok=MicroUsd(10**6), cached_per_mtok=MicroUsd(10**6), output_per_mtok=MicroUsd(10**6)
)
"""One micro-dollar a token, so that money and tokens read alike."""


class Journal:
    """Rows in memory; may be full."""

    def __init__(self) -> None:
        """Begin empty."""
        self.rows: list[LedgerRow] = []
        self.is_full = False

    def opened(self, opening: Opening) -> None:
        """Refuse where full."""
        if self.is_full:
            raise StoreUnavailable

    def delivered(self, request: RequestId, tokens: int) -> None:
        """Nothing to note."""

    def closed(self, row: LedgerRow) -> None:
        """Keep the row."""
        self.rows.append(row)


class Breakable:
    """The memory store behind a switch."""

    def __init__(self, inner: LimitStore) -> None:
        """Begin in reach."""
        self.inner = inner
        self.is_down = False
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while a reservation is under way."""

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        """Reserve, if in reach."""
        self._check()
        decision = await self.inner.reserve(lease, draws, hold_s)
        self.meanwhile()
        return decision

    async def look(self, draws: Sequence[Draw]) -> MeterDecision:
        """Look, if in reach."""
        self._check()
        return await self.inner.look(draws)

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        """Adopt, if in reach."""
        self._check()
        await self.inner.adopt(lease, draws, hold_s)

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        """Renew, if in reach."""
        self._check()
        await self.inner.renew(leases, hold_s)

    async def free(self, lease: RequestId) -> None:
        """Free, if in reach."""
        self._check()
        await self.inner.free(lease)

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """Settle, if in reach."""
        self._check()
        return await self.inner.settle(lease, actual)

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable


class Till:
    """Reservations with everything it needs, and what it did."""

    def __init__(self, clock: ManualClock, plan: Plan) -> None:
        """Serve one tenant under this plan."""
        self.clock, self.plan = clock, plan
        self.journal = Journal()
        self.store = Breakable(MemoryLimits(clock))
        self.expectation = OutputExpectation(prior_tokens=16)
        self.tasks: list[asyncio.Task[None]] = []
        self.reservations = Reservations(
            store=self.store,
            journal=self.journal,
            expectation=self.expectation,
            clock=clock,
            spawn=self._spawn,
        )
        self.number = 0

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def open(self, *, prompt: int = 10, worst_case: int = 100, sequences: int = 1) -> Reservation:
        """Open one request."""
        self.number += 1
        opening = Opening(
            request=RequestId(f"r{self.number}"),
            tenant=TenantId("t"),
            key=KeyId("k"),
            version=VersionId("m@1"),
            digest="d",
            api="/v1/completions",
            priority=Priority.STANDARD,
            prompt_tokens=prompt,
            price=DOLLAR_A_TOKEN,
            opened_at=self.clock.now(),
        )
        scopes = (Scope(name="tenant:t", plan=self.plan),)
        lease = Lease(opened_at=0.0, deadline_at=99.0)
        yields = self.plan.over_quota is OverQuota.YIELD
        cost = Cost(prompt_tokens=prompt, output_tokens=worst_case, sequences=sequences, is_counted=True)
        claim = ReservationRequest(opening=opening, scopes=scopes, cost=cost, stream=True, yields=yields)
        return await self.reservations.open(claim, lease)

    async def close(self, reservation: Reservation, output: int, outcome: Outcome = Outcome.OK) -> LedgerRow:
        """Close one request and let the store hear of it."""
        usage = Usage(prompt_tokens=10, output_tokens=output, exact=outcome is Outcome.OK)
        row = self.reservations.close(reservation, Settlement(outcome=outcome, usage=usage, held_s=1.0))
        await asyncio.gather(*self.tasks)
        self.tasks.clear()
        return row

    async def has_budget(self, amount: int) -> bool:
        """Tell whether so much could be reserved now; reserves nothing."""
        self.number += 1
        need = Need(version=VersionId("m@1"), tokens=0, cost=MicroUsd(amount), stream=False)
        spend = [
            d
            for d in draws((Scope(name="tenant:t", plan=self.plan),), need, self.clock.now())
            if d.measure is Measure.SPEND
        ]
        probe = RequestId(f"probe{self.number}")
        granted = (await self.store.reserve(probe, spend, 1.0)).granted
        await self.store.settle(probe, {Measure.SPEND: 0})
        return granted


BUDGET = Plan(spend_per_day=MicroUsd(1000), max_concurrent=4)


async def test_spend_is_the_sum_of_the_rows_and_nothing_stays_reserved(clock: ManualClock) -> None:
    """After any history at rest the budget holds exactly what the ledger says was spent."""
    till, chance = Till(clock, Plan(spend_per_day=MicroUsd(3000), max_concurrent=8)), random.Random(11)
    living: list[Reservation] = []
    for _ in range(300):
        try:
            living.append(await till.open())
        except (OverBudget, OverLimit):
            if not living:
                break
        if living and chance.random() < 0.6:
            outcome = chance.choice([Outcome.OK, Outcome.CANCELLED, Outcome.BROKEN_STREAM])
            await till.close(living.pop(), chance.randrange(0, 60), outcome)
    for reservation in living:
        await till.close(reservation, 1)
    spent = sum(row.cost for row in till.journal.rows)
    assert await till.has_budget(3000 - spent)
    assert not await till.has_budget(3000 - spent + 1)


async def test_a_partial_stream_bills_what_was_delivered(clock: ManualClock) -> None:
    """A broken stream costs its prompt and the tokens that were passed on."""
    till = Till(clock, BUDGET)
    assert (await till.close(await till.open(), 7, Outcome.BROKEN_STREAM)).cost == 10 + 7


async def test_a_large_max_tokens_does_not_fill_the_budget(clock: ManualClock) -> None:
    """What is reserved follows what answers really were, not what they might be."""
    till = Till(clock, BUDGET)
    for _ in range(4):
        await till.open(worst_case=100_000)


async def test_an_answer_that_outgrows_its_reservation_is_topped_up(clock: ManualClock) -> None:
    """A long answer keeps reserving while it runs, and ends at its true cost."""
    till = Till(clock, BUDGET)
    reservation = await till.open(worst_case=1000)
    for delivered in (20, 90, 160):
        reservation.lease.delivered = delivered
        await till.reservations.top_up()
        assert reservation.reserved_output > delivered
    assert (await till.close(reservation, 170)).cost == 180
    assert await till.has_budget(1000 - 180)
    assert not await till.has_budget(1000 - 180 + 1)


async def test_a_top_up_for_an_answer_that_has_just_ended_is_given_back(clock: ManualClock) -> None:
    """An answer that ends while the store is asked for more holds nothing afterwards."""
    till = Till(clock, BUDGET)
    reservation = await till.open(worst_case=1000)
    reservation.lease.delivered = reservation.reserved_output
    end = Settlement(outcome=Outcome.OK, usage=Usage(prompt_tokens=10, output_tokens=20), held_s=1.0)
    till.store.meanwhile = lambda: till.reservations.close(reservation, end)
    await till.reservations.top_up()
    till.store.meanwhile = lambda: None
    await asyncio.gather(*till.tasks)
    assert await till.has_budget(1000 - 30)


async def test_where_the_budget_ends_the_answer_ends(clock: ManualClock) -> None:
    """A stream that can't be topped up is ended with the budget's error."""
    till = Till(clock, Plan(spend_per_day=MicroUsd(40)))
    heard: list[PenstockError] = []
    reservation = await till.open(worst_case=1000)
    reservation.lease.end_early = heard.append
    reservation.lease.delivered = reservation.reserved_output
    await till.reservations.top_up()
    assert [type(error) for error in heard] == [OverBudget]


async def test_what_the_store_missed_it_hears_later(clock: ManualClock) -> None:
    """A settlement during an outage is kept and sent when the store is back."""
    till = Till(clock, BUDGET)
    reservations = [await till.open() for _ in range(4)]
    till.store.is_down = True
    for reservation in reservations:
        await till.close(reservation, 5)
    till.store.is_down = False
    await till.reservations.keep()
    for _ in range(4):
        await till.open()


async def test_what_runs_runs_on_while_the_store_is_away(clock: ManualClock) -> None:
    """A stream that outgrew its reservation isn't ended by an outage; the next round reserves what it needs."""
    till = Till(clock, BUDGET)
    heard: list[PenstockError] = []
    reservation = await till.open(worst_case=1000)
    reservation.lease.end_early = heard.append
    reservation.lease.delivered = reserved = reservation.reserved_output
    till.store.is_down = True
    await till.reservations.top_up()
    assert (heard, reservation.reserved_output) == ([], reserved)
    till.store.is_down = False
    await till.reservations.top_up()
    assert reservation.reserved_output > reserved


async def test_a_full_spool_gives_the_reservation_back(clock: ManualClock) -> None:
    """A request that can't be written down does not run and holds nothing."""
    till = Till(clock, BUDGET)
    till.journal.is_full = True
    for _ in range(6):
        with pytest.raises(StoreUnavailable):
            await till.open()
        await asyncio.gather(*till.tasks)


async def test_a_refusal_names_the_limit_and_the_wait(clock: ManualClock) -> None:
    """The caller hears whose limit of what size it was, and when to come back."""
    till = Till(clock, Plan(requests_per_min=1))
    await till.open()
    with pytest.raises(
        OverLimit, match="the tenant's limit of 1 requests a minute is reached for this model"
    ) as refused:
        await till.open()
    assert refused.value.retry_after_s == pytest.approx(60.0)
    assert refused.value.reason == "tenant_requests"
    assert dict(refused.value.headers) == {
        b"x-ratelimit-limit-requests": b"1",
        b"x-ratelimit-remaining-requests": b"0",
        b"x-ratelimit-reset-requests": b"1m0s",
    }


async def test_a_request_that_can_never_fit_is_not_told_to_come_back(clock: ManualClock) -> None:
    """What exceeds a limit all by itself has an error of its own, without a wait."""
    till = Till(clock, Plan(tokens_per_min=15))
    with pytest.raises(ExceedsLimit, match="alone exceeds the tenant's limit of 15 tokens") as refused:
        await till.open(prompt=10, worst_case=100)
    assert refused.value.retry_after_s is None


async def test_more_choices_than_slots_are_refused_for_good(clock: ManualClock) -> None:
    """``n=2`` under a plan of one request at a time never runs: it is told so, also while another one runs."""
    till = Till(clock, Plan(max_concurrent=1))
    for others in range(2):
        with pytest.raises(ExceedsLimit, match="limit of 1 requests at a time: it counts as 2") as refused:
            await till.open(sequences=2)
        assert refused.value.retry_after_s is None
        assert dict(response_of(refused.value, RequestId("r"))[1])[b"x-should-retry"] == b"false"
        if not others:
            await till.open()


async def test_who_yields_runs_over_its_rates_and_draws_nothing_of_them(clock: ManualClock) -> None:
    """Beyond its requests and tokens a minute the request is let in as over quota, and the answer says so."""
    till = Till(clock, Plan(requests_per_min=1, tokens_per_min=10_000, over_quota=OverQuota.YIELD))
    first, second = await till.open(), await till.open()
    assert first.lease.over_quota is None
    assert OVER_QUOTA in second.lease.headers
    assert second.draws == ()
    assert second.lease.over_quota is not None
    assert second.lease.over_quota.retry_after_s == pytest.approx(60.0)
    await till.close(second, 500)
    clock.advance(60.0)
    assert (await till.open()).lease.over_quota is None


async def test_who_yields_still_has_its_slots_and_its_budget(clock: ManualClock) -> None:
    """Requests at a time and money are never exceeded, whatever becomes of the rates."""
    slots = Till(clock, Plan(requests_per_min=1, max_concurrent=2, over_quota=OverQuota.YIELD))
    for _ in range(2):
        await slots.open()
    with pytest.raises(OverLimit, match="requests at a time"):
        await slots.open()
    money = Till(clock, Plan(requests_per_min=1, spend_per_day=MicroUsd(160), over_quota=OverQuota.YIELD))
    for _ in range(2):
        await money.open()
    with pytest.raises(OverBudget):
        await money.open()


async def test_a_running_answer_of_who_yields_goes_on_over_its_tokens(clock: ManualClock) -> None:
    """A stream that outgrows its tokens a minute is not cut off; its budget would."""
    till = Till(clock, Plan(tokens_per_min=40, spend_per_day=MicroUsd(200), over_quota=OverQuota.YIELD))
    heard: list[PenstockError] = []
    reservation = await till.open(worst_case=1000)
    reservation.lease.end_early = heard.append
    reservation.lease.delivered = 70
    await till.reservations.top_up()
    assert (heard, reservation.reserved_output > 70) == ([], True)
    reservation.lease.delivered = 100
    for _ in range(3):
        await till.reservations.top_up()
        reservation.lease.delivered += 100
    assert [type(error) for error in heard[:1]] == [OverBudget]


async def test_what_a_dead_gateway_left_is_settled_by_its_heir(clock: ManualClock) -> None:
    """Rows of a killed gateway free its holds and count their cost, once, however often they are inherited."""
    dead, heir = Till(clock, BUDGET), Till(clock, BUDGET)
    heir.store.inner = dead.store.inner
    reservation = await dead.open()
    usage = Usage(prompt_tokens=10, output_tokens=7, exact=False)
    row = close(reservation.opening, Outcome.INTERNAL, usage, gpu_s=0.0, now=clock.now())
    for _ in range(2):
        await heir.reservations.inherit([row])
    heir.number = 100
    assert await heir.has_budget(1000 - 17)
    assert not await heir.has_budget(1000 - 17 + 1)


async def test_what_outlives_its_deadline_is_overdue(clock: ManualClock) -> None:
    """A reservation that nobody closes is found a grace after its request's deadline, and one that is closed is not."""
    till = Till(clock, BUDGET)
    forgotten, closed = await till.open(), await till.open()
    clock.advance(99.0 + 60.0)
    assert till.reservations.overdue(60.0) == 0
    clock.advance(0.1)
    assert till.reservations.overdue(60.0) == 2
    await till.close(closed, 1)
    assert till.reservations.overdue(60.0) == 1
    await till.close(forgotten, 1)
    assert till.reservations.overdue(60.0) == 0
