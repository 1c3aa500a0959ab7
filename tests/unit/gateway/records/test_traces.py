"""Traces: one span for the request, its attempts and stages below it, in the caller's trace or one of its own."""

import random
import re
from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.domain.errors import Overloaded
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import Waited
from penstock.domain.serving.request_record import Tried
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.records.traces import RequestTraces
from penstock.telemetry.w3c import is_sampled, own_span, trace_of
from tests.support.clock import ManualClock
from tests.support.samples import calls

CALLER = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
OWN = "00-" + "a" * 32 + "-" + "c" * 16 + "-01"
OK = Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=7, output_tokens=3))


class House:
    """What sends traces, and what it has sent."""

    def __init__(self, clock: ManualClock) -> None:
        self.exporter, self.clock = InMemorySpanExporter(), clock
        self.traces = RequestTraces(self.exporter, clock.now, clock.monotonic)

    def spans(self, call: Call, answer: Answer = OK) -> Mapping[str, ReadableSpan]:
        self.clock.advance(0.5)
        self.traces.finished(call, answer)
        self.traces.close()
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def house(clock: ManualClock) -> House:
    """Return what sends traces."""
    return House(clock)


def a_call(context: str = OWN, caller: str = CALLER) -> Call:
    call = calls.call(traceparent=context, caller_trace=caller)
    for stage, seconds in ((Stage.AUTH, 0.1), (Stage.ROUTE, 0.05), (Stage.QUEUE, 0.1), (Stage.DECODE, 0.2)):
        call.timings.put(stage, seconds)
    return call


def ids(span: ReadableSpan) -> tuple[str, str, str]:
    """Return trace, span and parent."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}", f"{span.parent.span_id:016x}" if span.parent else ""


def test_a_trace_is_joined_or_begun() -> None:
    """In a caller's trace the request has a span of its own, and the caller's word counts; a new one has the ratio."""
    chance = random.Random(1)
    joined = own_span(CALLER, 0.0, chance)
    assert trace_of(joined) == "a" * 32
    assert joined[36:52] != CALLER[36:52]
    assert not is_sampled(own_span(CALLER[:-1] + "0", 1.0, chance))
    made = [own_span("", 0.25, chance) for _ in range(1000)]
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", context) for context in made)
    assert len(set(made)) == 1000
    assert 180 < sum(is_sampled(context) for context in made) < 320
    assert trace_of("") == trace_of(CALLER[:-1] + "0") == ""


def test_the_request_is_the_span_that_its_worker_was_told_of(house: House) -> None:
    """What goes on to the engine names the request's span, which hangs below the caller's."""
    assert ids(house.spans(a_call())["request"]) == ("a" * 32, "c" * 16, "b" * 16)


def test_a_trace_of_its_own_begins_with_the_request(house: House) -> None:
    """Without a caller's context the request is the root, under the ids that it carried."""
    assert ids(house.spans(a_call(caller=""))["request"]) == ("a" * 32, "c" * 16, "")


def test_stages_follow_one_another_below_the_request_and_its_worker(house: House) -> None:
    """Queue and decode belong to the attempt that answered, the others to the request; each begins as one ends."""
    call = a_call()
    waited = Waited(predicted_s=0.5, waited_s=0.1, waiting=3, tenants=1)
    call.attempts.trail += [Tried("w1", 0.12, "overloaded"), Tried("w2", 0.15, "", waited)]
    spans = house.spans(call)
    request, attempt = ids(spans["request"])[1], spans["attempt"]
    assert {name: ids(spans[name])[2] for name in ("auth", "route", "attempt")} == dict.fromkeys(
        ("auth", "route", "attempt"), request
    )
    assert {ids(spans[name])[2] for name in ("queue", "decode")} == {ids(attempt)[1]}
    assert spans["auth"].end_time == spans["route"].start_time
    assert attempt.attributes is not None
    assert attempt.attributes["penstock.worker"] == "w2"
    assert attempt.attributes["penstock.predicted_wait_s"] == 0.5
    assert spans["request"].end_time is not None
    assert spans["request"].start_time is not None
    assert spans["request"].end_time - spans["request"].start_time == pytest.approx(0.5e9, abs=1e3)
    assert len(house.exporter.get_finished_spans()) == 7


def test_a_failure_is_the_spans_status(house: House) -> None:
    """Whoever looks for errors finds the request by its code."""
    call = a_call()
    request = house.spans(call, Answer.refused(Overloaded(), Usage()))["request"]
    assert (request.status.is_ok, request.status.description) == (False, "overloaded")


def test_what_is_not_sampled_makes_no_span(house: House) -> None:
    """Unsampled requests, and those without any context, cost nothing here."""
    assert house.spans(a_call(OWN[:-1] + "0")) == {}
    assert House(house.clock).spans(a_call("", "")) == {}
