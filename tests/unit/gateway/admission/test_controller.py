import asyncio
from collections.abc import Coroutine
from dataclasses import replace

import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.errors import DeadlineInQueue, InvalidField, OverLimit
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Degradation, Outcome, Stage
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import Api
from penstock.domain.serving.slo import SloTier
from penstock.domain.tenancy.cost import UNBOUNDED, Cost
from penstock.domain.tenancy.ledger import LEAST_GPU_S, LedgerRow, Opening
from penstock.domain.tenancy.tenant import Plan, Priority
from penstock.domain.tokens import Usage
from penstock.gateway.admission.controller import AdmissionController, bounded
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.reservations import Reservations
from penstock.gateway.calls.call import Admitted, Chosen
from penstock.gateway.pipeline import Admission
from tests.support.clock import ManualClock
from tests.support.samples import calls

CHAT = SloTier(
    tier=Tier.CHAT, says="A person reads.", window_days=28, deadline_s=60.0, queue_timeout_s=15.0, objectives=()
)


class Counted:
    def __init__(self, clock: ManualClock) -> None:
        self.in_flight: dict[str, int] = {}
        self.rows: list[LedgerRow] = []
        store = MemoryLimits(clock)
        self.reservations = Reservations(
            store=store, journal=self, expectation=OutputExpectation(), clock=clock, spawn=self.spawn
        )
        self.controller: Admission = AdmissionController(
            reservations=self.reservations,
            tiers={Tier.CHAT: CHAT},
            clock=clock,
            in_flight=self.count,
        )
        self.tasks: list[asyncio.Task[None]] = []

    async def admit(self, call: Chosen) -> Admitted:
        """Do as the pipeline does."""
        admitted = self.controller.lease(call, self.controller.due(call))
        await self.controller.reserve(admitted)
        return admitted

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def opened(self, opening: Opening) -> None:
        """Take every opening."""

    def delivered(self, request: RequestId, tokens: int) -> None:
        """Nothing to note."""

    def closed(self, row: LedgerRow) -> None:
        self.rows.append(row)

    def count(self, model: str, change: int) -> None:
        self.in_flight[model] = self.in_flight.get(model, 0) + change


@pytest.mark.parametrize(
    ("client_s", "plan_s", "deadline_at"), [(0, 0, 60), (10, 0, 10), (0, 20, 20), (30, 20, 20), (90, 80, 60)]
)
async def test_the_nearest_deadline_counts(
    clock: ManualClock, client_s: float, plan_s: float, deadline_at: float
) -> None:
    """Client, plan and tier each may shorten the deadline, and none may lengthen it."""
    call = calls.call(deadline_s=client_s, plan=Plan(deadline_s=plan_s))
    call = await Counted(clock).admit(call)
    assert call.lease.deadline_at == deadline_at
    assert call.own_deadline == (client_s == deadline_at)


@pytest.mark.parametrize(
    ("client_s", "plan", "start_by"),
    [
        (0, Plan(), 15.0),
        (0, Plan(deadline_s=40), 15.0),
        (90, Plan(), 15.0),
        (59, Plan(), 0.0),
        (0, Plan(priority=Priority.BATCH), 0.0),
    ],
)
async def test_who_names_no_deadline_has_the_tier_s_queue_timeout(
    clock: ManualClock, client_s: float, plan: Plan, start_by: float
) -> None:
    """A caller that says how long it waits, and batch work, wait as long as that; others as long as the tier says."""
    lease = (await Counted(clock).admit(calls.call(deadline_s=client_s, plan=plan))).lease
    assert lease.start_by == start_by
    assert lease.promise == CHAT.timed


async def test_a_slow_upload_takes_nothing_of_the_platforms_time(clock: ManualClock) -> None:
    """Deadline and queue timeout of the tier count from when the body was here; what the caller asks, from arrival."""
    call = calls.call()
    call.timings.put(Stage.UPLOAD, 30.0)
    call = await Counted(clock).admit(call)
    assert (call.lease.deadline_at, call.lease.start_by, call.own_deadline) == (90.0, 45.0, False)
    asked = calls.call(deadline_s=70.0)
    asked.timings.put(Stage.UPLOAD, 30.0)
    asked = await Counted(clock).admit(asked)
    assert (asked.lease.deadline_at, asked.own_deadline) == (70.0, True)


async def test_a_deadline_counts_from_arrival(clock: ManualClock) -> None:
    """A request whose deadline passed while it was read never starts, and holds nothing: a 504 as for others."""
    parts = Counted(clock)
    clock.advance(2.0)
    with pytest.raises(DeadlineInQueue):
        await parts.admit(calls.call(deadline_s=1.5))
    assert (parts.rows, parts.in_flight) == ([], {})


async def test_what_a_lease_holds_comes_back_once(clock: ManualClock) -> None:
    """Settling frees slot and gauge and writes one row; settling again changes nothing."""
    parts = Counted(clock)
    lease = (await parts.admit(calls.call(plan=Plan(max_concurrent=1)))).lease
    assert parts.in_flight == {"toy": 1}
    with pytest.raises(OverLimit):
        await parts.admit(calls.call(plan=Plan(max_concurrent=1), id=RequestId("req-2")))
    assert lease.settle(Outcome.OK, Usage(), 3.0)
    assert not lease.settle(Outcome.OK, Usage(), 4.0)
    await asyncio.gather(*parts.tasks)
    assert (len(parts.rows), parts.in_flight) == (1, {"toy": 0})
    await parts.admit(calls.call(plan=Plan(max_concurrent=1), id=RequestId("req-3")))


async def test_the_row_says_how_often_a_stream_was_continued(clock: ManualClock) -> None:
    """However many workers a stream had, it is one row, and the row tells."""
    parts = Counted(clock)
    call = calls.call(plan=Plan())
    lease = (await parts.admit(call)).lease
    call.attempts.continued_at += [1.0, 2.0]
    lease.settle(Outcome.OK, Usage(prompt_tokens=5, output_tokens=3), 3.0)
    await asyncio.gather(*parts.tasks)
    assert [row.continued for row in parts.rows] == [2]


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.DEADLINE])
async def test_an_answer_that_was_broken_off_has_used_its_engine(clock: ManualClock, outcome: Outcome) -> None:
    """Without stages a whole answer's seconds are those from dispatch to its end, less the wait that is known."""
    parts = Counted(clock)
    call = calls.call()
    lease = (await parts.admit(call)).lease
    call.timings.put(Stage.ROUTE, 0.5)
    call.timings.put(Stage.QUEUE, 1.5)
    lease.settle(outcome, Usage(prompt_tokens=5, output_tokens=30), 6.0)
    assert [row.gpu_s for row in parts.rows] == [4.0]


async def test_a_busy_workers_requests_take_no_more_than_its_time(clock: ManualClock) -> None:
    """Eight requests that shared an engine for two seconds are two seconds together, each what its worker counted."""
    parts = Counted(clock)
    for number in range(8):
        call = calls.call(id=RequestId(f"req-{number}"))
        lease = (await parts.admit(call)).lease
        call.timings.put(Stage.PREFILL, 0.5)
        call.timings.put(Stage.DECODE, 1.5)
        call.attempts.used = Used(prompt_tokens=5, output_tokens=30, steps=30, beside=240, engine_us=250_000)
        lease.settle(Outcome.OK, Usage(prompt_tokens=5, output_tokens=30), 2.0)
    assert sum(row.gpu_s for row in parts.rows) == 2.0


async def test_a_request_took_no_more_of_an_engine_than_its_own_time(clock: ManualClock) -> None:
    """Whatever a worker says, a request is not believed to have had an engine for longer than it lasted."""
    parts = Counted(clock)
    call = calls.call()
    lease = (await parts.admit(call)).lease
    call.attempts.used = Used(prompt_tokens=5, output_tokens=30, engine_us=10**15)
    lease.settle(Outcome.OK, Usage(prompt_tokens=5, output_tokens=30), 2.0)
    assert [row.gpu_s for row in parts.rows] == [2.0]


async def test_a_part_of_a_step_is_less_than_any_step(clock: ManualClock) -> None:
    """A text among many in one step took microseconds, and its row says so."""
    parts = Counted(clock)
    call = calls.call()
    lease = (await parts.admit(call)).lease
    call.attempts.used = Used(prompt_tokens=5, engine_us=80)
    lease.settle(Outcome.OK, Usage(prompt_tokens=5), 2.0)
    assert [row.gpu_s for row in parts.rows] == [80 / 1e6]


async def test_a_row_that_used_no_engine_has_no_seconds_and_any_other_has_some(clock: ManualClock) -> None:
    """What never ran took nothing, and what ran for too short a time to be measured is never none."""
    parts = Counted(clock)
    for number, usage in enumerate((Usage(), Usage(prompt_tokens=5))):
        lease = (await parts.admit(calls.call(id=RequestId(f"req-{number}")))).lease
        lease.settle(Outcome.CANCELLED, usage, 3.0 if number == 0 else 0.0)
    assert [row.gpu_s for row in parts.rows] == [0.0, LEAST_GPU_S]


async def test_a_moved_request_is_the_other_models_from_then_on(clock: ManualClock) -> None:
    """Its row has the version, price and lack of the answer that was given; what was reserved is settled once."""
    parts = Counted(clock)
    call = calls.call(plan=Plan(max_concurrent=1))
    call = await parts.admit(call)
    dear = Price(prompt_per_mtok=MicroUsd(0), cached_per_mtok=MicroUsd(0), output_per_mtok=MicroUsd(5_000_000))
    call = replace(call, version=replace(calls.VERSION, id=VersionId("small@0123456789ab"), price=dear))
    call = replace(call, degraded=(Degradation.SMALLER_MODEL,))
    parts.controller.move(call)
    call.lease.settle(Outcome.OK, Usage(prompt_tokens=5, output_tokens=3), 1.0)
    await asyncio.gather(*parts.tasks)
    (row,) = parts.rows
    assert (row.version, row.cost, row.degraded) == ("small@0123456789ab", 15, "smaller-model")
    assert parts.in_flight == {"toy": 0}
    await parts.admit(calls.call(plan=Plan(max_concurrent=1), id=RequestId("req-2")))


async def test_open_leases_can_be_looked_at(clock: ManualClock) -> None:
    """A lease is there with its request from its opening to its end."""
    parts = Counted(clock)
    controller, call = parts.controller, await parts.admit(calls.call())
    assert controller.running == {call.lease: call}  # type: ignore[attr-defined]
    call.lease.settle(Outcome.CANCELLED, Usage(), 1.0)
    assert controller.running == {}  # type: ignore[attr-defined]


async def test_more_output_than_the_plan_allows_is_refused(clock: ManualClock) -> None:
    """An explicit wish beyond the plan is told, not quietly shortened, and holds nothing."""
    parts = Counted(clock)
    with pytest.raises(InvalidField) as caught:
        await parts.admit(calls.call(cost=Cost(output_tokens=101), plan=Plan(max_output_tokens=100)))
    assert caught.value.param == "max_completion_tokens"
    assert parts.in_flight == {}


@pytest.mark.parametrize(
    ("named", "param"),
    [
        ({"max_tokens": 500}, "max_tokens"),
        ({"max_tokens": None, "max_completion_tokens": 500}, "max_completion_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 500}, "max_completion_tokens"),
    ],
)
def test_a_refused_wish_is_named_as_it_was_sent(named: dict[str, object], param: str) -> None:
    """The field at fault is one of the caller's own body."""
    with pytest.raises(InvalidField) as caught:
        bounded(calls.request(body={"model": "toy", **named}, cost=Cost(output_tokens=500)), 100)
    assert caught.value.param == param


@pytest.mark.parametrize(("n", "each"), [(None, 100), (1, 100), (3, 33), (200, 1)])
async def test_a_silent_request_is_bounded_by_the_plan(clock: ManualClock, n: int | None, each: int) -> None:
    """The plan's bound is shared by all choices and reaches the engine; the caller's own object stays as it was."""
    body = {"model": "toy", "n": n}
    call = calls.call(body=body, cost=Cost(sequences=n or 1), plan=Plan(max_output_tokens=100))
    call = await Counted(clock).admit(call)
    assert call.request.body["max_completion_tokens"] == each
    assert call.request.cost.output_tokens == each * (n or 1)
    assert body == {"model": "toy", "n": n}


def test_requests_within_the_bound_and_embeddings_pass_untouched() -> None:
    """Nothing is rewritten without need."""
    small, vectors = calls.request(cost=Cost(output_tokens=100)), calls.request(api=Api.EMBEDDINGS)
    assert bounded(small, 100) is small
    assert bounded(vectors, 100) is vectors
    assert bounded(calls.request(cost=Cost(output_tokens=10**6)), 0).cost.output_tokens == 10**6


@pytest.mark.parametrize(("asked", "expected"), [(UNBOUNDED, 256), (100, 100), (5000, 256)])
async def test_the_lease_holds_the_expected_output(clock: ManualClock, asked: int, expected: int) -> None:
    """It is the requested maximum, or the usual length of such answers if that is shorter."""
    lease = (await Counted(clock).admit(calls.call(cost=Cost(output_tokens=asked)))).lease
    assert lease.expected_output == expected
