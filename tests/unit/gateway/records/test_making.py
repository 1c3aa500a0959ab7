"""The record of a request: all that its stages have left, nothing of its text, and what is unknown as unknown."""

from dataclasses import replace

import msgspec
import pytest

from penstock.apps import slos
from penstock.domain.errors import ContextTooLong, EngineRefused, InvalidField, OverLimit, PenstockError
from penstock.domain.ids import KeyId, RequestId, TenantId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import Used, Waited
from penstock.domain.serving.request import Api
from penstock.domain.serving.request_record import Choice, Considered, Drawn, Refusal, RequestRecord, Tried
from penstock.domain.serving.slo import Indicator
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.calls.call import Admitted, Answer, Call
from penstock.gateway.calls.lease import Lease
from penstock.gateway.records.making import AT_ONCE, Early, Records, RefusalQuota
from tests.support.clock import ManualClock
from tests.support.samples import calls

SECRET = "the-prompt-of-acme"
DRAW = Draw(key="tenant:acme:toy@1:rpm", kind=MeterKind.BUCKET, measure=Measure.REQUESTS, amount=1, capacity=60)


class House:
    """What makes records, and those that it made."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kept: list[RequestRecord] = []
        self.crowd: list[RequestRecord] = []
        self.records = Records(self.kept.append, slos.load(), self.clock, crowd=self.crowd.append)

    def ended(
        self, call: Call, outcome: Outcome = Outcome.OK, usage: Usage = UNKNOWN, refusal: Refusal | None = None
    ) -> RequestRecord:
        self.records.ended(call, Answer(outcome=outcome, usage=usage, refusal=refusal))
        return self.kept[-1]


def a_call() -> Admitted:
    call = calls.call(body={"model": "toy", "messages": [{"role": "user", "content": SECRET}]})
    call = replace(call, lease=Lease(opened_at=0.0, deadline_at=60.0))
    call.lease.drawn, call.lease.left = (DRAW,), (12,)
    call.attempts.trail.append(Tried("w1", 0.1, "", Waited(predicted_s=0.5, waited_s=0.7, waiting=2, tenants=1)))
    return call


def test_a_finished_request_leaves_everything_but_its_text() -> None:
    """Limits, workers, attempts, tokens, steps, times and prices stand in its record; no word of the prompt does."""
    house, call = House(), a_call()
    call.timings.put(Stage.QUEUE, 0.7)
    call.attempts.used = Used(prompt_tokens=7, output_tokens=3, steps=3, beside=9)
    call.attempts.choices.append(Choice("w1", 2, 0, 1, (Considered("w1", None, 10.0, 0, 0.0, 0.0),)))
    house.clock.advance(2.0)
    record = house.ended(call, usage=Usage(prompt_tokens=7, output_tokens=3, cached_tokens=2))
    assert (record.id, record.tenant, record.key, record.outcome) == ("req-1", "acme", "k", "ok")
    assert (record.seconds, record.deadline_s, record.stages_s) == (2.0, 60.0, {"queue": 0.7})
    assert record.drawn == (Drawn("tenant:acme:toy@1:rpm", 1, 12, 60),)
    assert record.attempts == (Tried("w1", 0.1, "", Waited(predicted_s=0.5, waited_s=0.7, waiting=2, tenants=1)),)
    assert (record.prompt_tokens, record.cached_tokens, record.output_tokens) == (7, 2, 3)
    assert (record.steps, record.beside, record.price) == (3, 9, (1, 1, 1))
    assert SECRET.encode() not in msgspec.json.encode(record)


def test_gaps_over_the_promise_are_counted() -> None:
    """How many of a stream's gaps were longer than promised stands in its record, with how many may be."""
    house, call = House(), a_call()
    within_s, may_be = slos.load()[Tier.CHAT].within_s(Indicator.ITL), 1 - 0.95
    gaps_s = (within_s, 2 * within_s, within_s / 2)
    house.records.ended(call, Answer(outcome=Outcome.OK, usage=UNKNOWN, itl_s=gaps_s))
    (record,) = house.kept
    assert (record.gaps, record.late_gaps, record.longest_gap_s) == (3, 1, 2 * within_s)
    assert record.most_late_ratio == pytest.approx(may_be)


def test_a_replay_leaves_whose_answer_it_was() -> None:
    """A repeated answer is found by its own id, and cost nothing."""
    house, call = House(), calls.call()
    house.records.replayed(call, RequestId("req-0"))
    (record,) = house.kept
    assert (record.id, record.replay_of, record.outcome, record.price) == ("req-1", "req-0", "ok", None)


def test_what_is_not_known_is_not_0() -> None:
    """A request that never asked its limits, and one whose worker did not tell, leave no figures for it."""
    house, call = House(), calls.arrived()
    record = house.ended(call, Outcome.ENGINE_ERROR)
    assert (record.drawn, record.deadline_s, record.ttft_s) == (None, None, None)
    assert (record.prompt_tokens, record.output_tokens, record.steps, record.beside) == (None, None, None, None)


def test_a_refused_request_is_recorded_with_what_refused_it() -> None:
    """The limit's words and the wait stand in the record; what a meter had left too."""
    house, call = House(), a_call()
    call.attempts.trail.clear()
    error = OverLimit("the tenant's limit is reached", retry_after_s=3.0, reason="tenant_requests")
    record = house.ended(call, Outcome.OVER_LIMIT, refusal=Refusal.of(error))
    assert (record.prompt_tokens, record.output_tokens) == (None, None)
    assert record.refusal == Refusal("rate_limit_exceeded", "tenant_requests", "the tenant's limit is reached", 3.0)


@pytest.mark.parametrize("error", [InvalidField(f"bad {SECRET}"), EngineRefused(f"can't read {SECRET}")])
def test_words_that_may_quote_the_caller_are_not_kept(error: PenstockError) -> None:
    """Of an error that may repeat what was sent, the code alone is kept."""
    assert Refusal.of(error) == Refusal(error.code)
    assert Refusal.of(ContextTooLong("9 of 4 tokens")).says == "9 of 4 tokens"


def test_a_request_refused_before_the_corridor_is_recorded() -> None:
    """Who is over a limit before the body was read finds that refusal again."""
    house = House()
    house.clock.advance(1.0)
    early = Early(RequestId("req-9"), Claim(TenantId("acme"), KeyId("k")), Api.CHAT, 0.5, {Stage.AUTH: 0.001})
    house.records.refused(OverLimit("the limit is reached"), early)
    (record,) = house.kept
    assert (record.id, record.outcome, record.seconds, record.version) == ("req-9", "over_limit", 0.5, "")


def test_a_flood_of_refusals_leaves_others_their_place() -> None:
    """One tenant's refusals beyond a rate are kept apart, in short; another's, and its own answers, as ever."""
    house, call = House(), a_call()
    for _ in range(int(3 * AT_ONCE)):
        house.ended(call, Outcome.OVER_LIMIT)
    assert (len(house.kept), len(house.crowd)) == (AT_ONCE, 2 * AT_ONCE)
    assert {(one.id, one.tenant, one.key, one.outcome, one.drawn) for one in house.crowd} == {
        (call.request.id, "acme", call.principal.key, "over_limit", None)
    }
    other = a_call()
    other = replace(other, principal=replace(other.principal, tenant=TenantId("other")))
    house.ended(other, Outcome.OVER_LIMIT)
    house.ended(call, Outcome.CANCELLED, Usage(prompt_tokens=5, output_tokens=1))
    assert [one.tenant for one in house.kept[-2:]] == ["other", "acme"]
    house.clock.advance(1.0)
    house.ended(call, Outcome.OVER_LIMIT)
    assert house.kept[-1].outcome == Outcome.OVER_LIMIT


def test_the_quota_remembers_a_bounded_number_of_tenants() -> None:
    """Many tenants with a refusal each take no memory for ever."""
    quota = RefusalQuota()
    assert all(quota.takes(f"t{number}", 0.0) for number in range(10_000))
    assert len(quota._left) <= 4096
