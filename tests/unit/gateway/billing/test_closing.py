"""A request's end: billed by its gate's count, told or asked for; slots are free at once."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import RequestId, WorkerId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import Report, Used, Waited
from penstock.domain.serving.request import Prepared
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.billing.asking import LiveCounts
from penstock.gateway.billing.closing import Closing, ForgivenEnds
from penstock.gateway.billing.together import MOST
from penstock.gateway.calls.call import Admitted, Answer, Call
from penstock.gateway.calls.lease import Lease, LeaseOwner, Settlement
from penstock.telemetry import names
from penstock.telemetry.definitions import Metric
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples import calls

USED = Used(prompt_tokens=30, output_tokens=400, sequences=8, prompts=1)
WORKER = WorkerEntry(id=WorkerId("w"), url="http://w", state=WorkerState.READY)


@dataclass
class Gates:
    """Workers' gates, as far as they can be asked."""

    told: dict[RequestId, Used] | None = None
    silent: int = 0
    """How many questions are not answered in time."""
    asked: list[tuple[str, tuple[RequestId, ...]]] = field(default_factory=list)

    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        """Tell."""
        self.asked.append((worker.url, tuple(requests)))
        await asyncio.sleep(0)
        self.silent -= 1
        return None if self.silent >= 0 else self.told


class Desk:
    """A closing, what it is told, and what became of one request."""

    def __init__(self, clock: ManualClock) -> None:
        self.gates, self.metrics, self.rows = Gates(), Metrics(), list[Answer]()
        self.freed = list[str]()
        self.tasks = list[asyncio.Task[None]]()
        self.forgiven = ForgivenEnds(clock)
        self.closing = Closing(
            asks=self.gates,
            ledger=self,
            forgiven=self.forgiven,
            clock=clock,
            spawn=self._spawn,
            metrics=self.metrics,
        )
        self.call = running(calls.call(), self)
        self.lease = self.call.lease

    def released(self, lease: Lease) -> None:
        self.freed.append("released")

    def ended(self, lease: Lease) -> None:
        self.freed.append("ended")

    def settled(self, lease: Lease, settlement: Settlement) -> None:
        self.freed.append("settled")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def record(self, call: Call, answer: Answer) -> None:
        """Take a row."""
        self.rows.append(answer)

    def close(self, answer: Answer) -> None:
        """End the request."""
        self.closing.close(self.call, answer)

    def count(self, metric: Metric) -> float:
        """Return a counter's sum."""
        found = (one for one in self.metrics.registry.collect() if one.name == metric.name)
        return sum(s.value for family in found for s in family.samples if s.name.endswith("_total"))


def running(call: Admitted, owner: LeaseOwner | None = None) -> Admitted:
    """Return the call as it runs at a worker, with a prompt of 30 tokens."""
    lease = Lease(opened_at=0.0, deadline_at=9.0, owner=owner)
    call.attempts.worker = WORKER
    return replace(call, prepared=Prepared(prompt_tokens=30), lease=lease)


@pytest.fixture
async def desk(clock: ManualClock) -> Desk:
    """Return a desk with one running request."""
    return Desk(clock)


async def test_what_the_gate_told_is_billed_at_once(desk: Desk) -> None:
    """An answer that came with its count needs no question."""
    desk.call.attempts.used = USED
    desk.close(Answer(outcome=Outcome.OK, usage=UNKNOWN, said=Usage(prompt_tokens=30, output_tokens=400)))
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=400)
    assert (desk.freed, desk.gates.asked) == (["ended", "settled"], [])
    assert desk.count(names.USAGE_DIFFERS) == 0


async def test_a_deadline_that_passed_under_compute_is_billed(desk: Desk) -> None:
    """Its worker's answer, a 504, came with the count of what was computed."""
    desk.call.attempts.used = Used(prompt_tokens=7, prompts=1)
    desk.close(Answer(outcome=Outcome.DEADLINE, usage=UNKNOWN))
    assert desk.rows[0].usage == Usage(prompt_tokens=7)


async def test_an_engine_that_tells_otherwise_is_counted_and_not_believed(desk: Desk) -> None:
    """Finding 4: usage of one choice of eight does not beat the count, and raises an alarm."""
    desk.call.attempts.used = USED
    desk.close(Answer(outcome=Outcome.OK, usage=UNKNOWN, said=Usage(prompt_tokens=30, output_tokens=51)))
    assert desk.rows[0].usage.output_tokens == 400
    assert desk.count(names.USAGE_DIFFERS) == 1


async def test_who_left_is_billed_what_was_generated(desk: Desk) -> None:
    """Finding 4: nothing was heard of a whole answer whose caller left; its worker is asked, slots don't wait."""
    desk.call.attempts.used, desk.gates.told = None, {desk.call.request.id: USED}
    desk.close(Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN))
    assert (desk.freed, desk.rows) == (["released", "ended"], [])
    await asyncio.gather(*desk.tasks)
    assert desk.freed[2:] == ["settled"]
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=400)
    assert desk.gates.asked == [("http://w", (desk.call.request.id,))]
    assert desk.count(names.GUESSED_BILLS) == 0


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.DEADLINE])
async def test_the_wait_of_who_left_the_door_is_learned(desk: Desk, outcome: Outcome) -> None:
    """Whose caller or time is gone before the worker's head came: its wait at the door was accounted nowhere."""
    waited = Used(waited_s=1.5)
    desk.call.attempts.used, desk.gates.told = None, {desk.call.request.id: waited}
    desk.close(Answer(outcome=outcome, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert desk.call.timings.seconds == {Stage.QUEUE: 1.5}


async def test_a_wait_that_the_head_told_counts_once(desk: Desk) -> None:
    """A stream that began has told its wait already."""
    desk.call.timings.put(Stage.QUEUE, 1.5)
    desk.call.attempts.report = Report(waited=Waited(predicted_s=1.0, waited_s=1.5))
    desk.call.attempts.used, desk.gates.told = None, {desk.call.request.id: replace(USED, waited_s=1.5)}
    desk.close(Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert desk.call.timings.seconds == {Stage.QUEUE: 1.5}


async def test_many_who_leave_at_once_are_one_question(desk: Desk) -> None:
    """A flood of callers who leave asked their worker once for each, and slowed everybody else's requests."""
    left = [calls.call(id=RequestId(f"r{i}")) for i in range(MOST + 40)]
    desk.gates.told = {call.request.id: replace(USED, output_tokens=i) for i, call in enumerate(left)}
    for call in left:
        call.attempts.used = None
        desk.closing.close(running(call), Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert [len(requests) for _, requests in desk.gates.asked] == [MOST, 40]
    assert [row.usage.output_tokens for row in desk.rows] == list(range(MOST + 40))


async def test_one_row_that_ends_early_takes_no_answer_from_others(desk: Desk) -> None:
    """Whoever waits for a question with others may be cancelled: the question is nobody's own."""
    other = running(calls.call(id=RequestId("other")))
    other.attempts.used = None
    desk.call.attempts.used, desk.gates.told = None, {other.request.id: USED}
    left = Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN)
    desk.close(left)
    desk.closing.close(other, left)
    await asyncio.sleep(0)
    desk.tasks[0].cancel()
    await asyncio.gather(*desk.tasks, return_exceptions=True)
    assert [(row.usage.output_tokens, row.usage.exact) for row in desk.rows] == [(0, False), (400, True)]


async def test_what_never_came_to_its_worker_is_free(desk: Desk) -> None:
    """A worker that tells, and knows nothing of a request, has done nothing for it."""
    desk.call.attempts.used, desk.gates.told = None, {}
    desk.close(Answer(outcome=Outcome.DEADLINE, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert desk.rows[0].usage == Usage()


async def test_what_was_delivered_is_never_free(desk: Desk) -> None:
    """A worker that does not know a request of which a caller has read 70 tokens was started anew since."""
    desk.call.attempts.used, desk.lease.delivered, desk.gates.told = None, 70, {}
    desk.close(Answer(outcome=Outcome.BROKEN_STREAM, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=70, exact=False)


async def test_a_worker_that_does_not_tell_leaves_a_guess(desk: Desk) -> None:
    """A lost worker's count is never 0 for who left: the prompt, and what was heard while it ran."""
    desk.call.attempts.used, desk.lease.delivered = None, 70
    desk.close(Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=70, exact=False)
    assert desk.count(names.GUESSED_BILLS) == 1


@pytest.mark.parametrize("knows", [True, False])
async def test_a_busy_worker_is_asked_again(desk: Desk, *, knows: bool) -> None:
    """One that was silent may have been started anew since: what it does not know then is a guess, and not free."""
    desk.call.attempts.used, desk.gates.silent = None, 1
    desk.gates.told = {desk.call.request.id: USED} if knows else {}
    desk.close(Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert len(desk.gates.asked) == 2
    assert (desk.rows[0].usage.output_tokens, desk.rows[0].usage.exact) == ((400, True) if knows else (0, False))
    assert desk.rows[0].usage.prompt_tokens == 30


async def test_a_process_that_goes_leaves_a_row(desk: Desk) -> None:
    """A question that is cancelled ends in a guess, and not in a lease that nobody settles."""
    desk.call.attempts.used = None
    desk.close(Answer(outcome=Outcome.CANCELLED, usage=UNKNOWN))
    await asyncio.sleep(0)
    desk.tasks[0].cancel()
    await asyncio.gather(*desk.tasks, return_exceptions=True)
    assert (len(desk.rows), desk.freed[-1]) == (1, "settled")


@pytest.mark.parametrize("outcome", [Outcome.ENGINE_ERROR, Outcome.INTERNAL])
@pytest.mark.parametrize("is_told", [True, False])
async def test_what_failed_before_its_answer_is_free(desk: Desk, outcome: Outcome, *, is_told: bool) -> None:
    """A handler's fault was billed what its gate had counted."""
    desk.call.attempts.used = USED if is_told else None
    desk.gates.told = {desk.call.request.id: USED}
    desk.close(Answer(outcome=outcome, usage=UNKNOWN))
    await asyncio.gather(*desk.tasks)
    assert [row.usage for row in desk.rows] == [Usage()]


async def test_a_list_with_a_bad_item_pays_for_those_that_ran(desk: Desk) -> None:
    """C11: whoever adds a bad item to a list of good ones has the engine work for nothing no more than before."""
    desk.call.attempts.used = USED
    desk.close(Answer(outcome=Outcome.BAD_REQUEST, usage=UNKNOWN))
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=400)


async def test_a_stream_that_broke_is_billed_what_came(desk: Desk) -> None:
    """What reached the caller before its engine failed is paid for."""
    desk.call.attempts.used = USED
    desk.close(Answer(outcome=Outcome.BROKEN_STREAM, usage=UNKNOWN, ttft_s=0.1))
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=400)


async def test_an_answer_without_a_token_raises_an_alarm(desk: Desk) -> None:
    """Finding 4: an ``ok`` row of 0 tokens is a bill that somebody got round."""
    desk.close(Answer(outcome=Outcome.OK, usage=Usage()))
    assert desk.count(names.EMPTY_BILLS) == 1


async def test_what_never_ran_is_free_and_nobody_is_asked(desk: Desk) -> None:
    """A refusal, by a limit or by a gate, costs nothing."""
    desk.close(Answer(outcome=Outcome.NO_CAPACITY, usage=UNKNOWN))
    assert desk.rows[0].usage == Usage()
    assert desk.gates.asked == []


async def test_whole_answers_are_looked_at_while_they_run(desk: Desk) -> None:
    """Each worker is asked once for all that it runs; streams are counted where they pass."""
    stream = calls.call(id=RequestId("s"), stream=True)
    stream.attempts.worker = WORKER
    desk.gates.told = {desk.call.request.id: USED}
    other = Lease(opened_at=0.0, deadline_at=9.0)
    await LiveCounts({desk.lease: desk.call, other: stream}, desk.gates).look()
    assert desk.gates.asked == [("http://w", (desk.call.request.id,))]
    assert (desk.lease.delivered, other.delivered) == (400, 0)


LIE = Used(prompt_tokens=10**9, cached_tokens=10**9, output_tokens=10**9, sequences=1, prompts=1)
"""What a worker says whose key was stolen, of a request of 30 tokens that may make 400."""


@pytest.mark.parametrize("way", ["told", "asked", "the engine's word"])
async def test_no_worker_bills_more_than_the_request_could_cost(desk: Desk, way: str) -> None:
    """A stolen worker's key: whatever it tells, and how, the row holds the most that was asked for, and is inexact."""
    desk.call = replace(desk.call, request=replace(desk.call.request, cost=Cost(output_tokens=400)))
    answer = Answer(outcome=Outcome.OK, usage=UNKNOWN)
    desk.call.attempts.used, desk.gates.told = None, {desk.call.request.id: LIE}
    if way == "told":
        desk.call.attempts.used = LIE
    elif way != "asked":
        answer = replace(answer, usage=Usage(prompt_tokens=10**9, cached_tokens=10**9, output_tokens=10**9))
    desk.close(answer)
    await asyncio.gather(*desk.tasks)
    assert desk.rows[0].usage == Usage(prompt_tokens=30, output_tokens=400, cached_tokens=30, exact=False)
    assert desk.count(names.CAPPED_BILLS) == 1


async def test_no_worker_spends_a_budget_by_saying_how_far_it_is(desk: Desk) -> None:
    """A stolen worker's key: limits top up a running answer for no more than it may make."""
    desk.call = replace(desk.call, request=replace(desk.call.request, cost=Cost(output_tokens=400)))
    desk.gates.told = {desk.call.request.id: LIE}
    await LiveCounts({desk.lease: desk.call}, desk.gates).look()
    assert desk.lease.delivered == 400
