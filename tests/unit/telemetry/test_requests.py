import io
import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.domain.call import Answer
from penstock.domain.errors import NoCapacity
from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.tokens import Usage
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics, observe_many
from penstock.telemetry.requests import UNKNOWN, RequestLedger
from penstock.telemetry.traces import RequestTraces, traceparent
from tests.support import calls
from tests.support.clock import ManualClock

OK = Answer(
    outcome=Outcome.OK,
    usage=Usage(prompt_tokens=7, output_tokens=3, cached_tokens=2),
    ttft_s=0.2,
    itl_s=(0.01, 0.02, 5.0),
)


@pytest.fixture
def log() -> io.StringIO:
    """Return what the process logs."""
    stream = io.StringIO()
    logs.configure("gateway", stream=stream)
    return stream


def test_a_finished_stream_is_counted_once_in_every_metric(log: io.StringIO, clock: ManualClock) -> None:
    """Outcome, tokens, first token, gaps and stages each get their share."""
    metrics = Metrics()
    call = calls.call(stream=True)
    call.timings.put(Stage.QUEUE, 0.5)
    clock.advance(2.0)
    RequestLedger(metrics, clock.monotonic).record(call, None, OK)
    told = metrics.exposition().decode()
    labels = 'api="/v1/chat/completions",model="toy"'
    assert f'penstock_requests_total{{{labels},outcome="ok",tenant="acme"}} 1.0' in told
    assert f"penstock_request_seconds_sum{{{labels}}} 2.0" in told
    assert 'penstock_output_tokens_total{model="toy",tenant="acme"} 3.0' in told
    assert 'penstock_ttft_seconds_sum{model="toy",tier="chat"} 0.2' in told
    assert 'penstock_itl_seconds_count{model="toy",tier="chat"} 3.0' in told
    assert 'penstock_stage_seconds_sum{model="toy",stage="queue"} 0.5' in told


def test_a_line_tells_everything_but_the_text(log: io.StringIO, clock: ManualClock) -> None:
    """The log has ids, outcome, tokens and stages, and no word of the prompt."""
    body = {"model": "toy", "messages": [{"role": "user", "content": "a secret"}]}
    RequestLedger(Metrics(), clock.monotonic).record(calls.call(body=body), None, OK)
    line = json.loads(log.getvalue())
    assert (line["event"], line["request_id"], line["tenant"], line["outcome"]) == ("request", "req-1", "acme", "ok")
    assert (line["prompt_tokens"], line["output_tokens"], line["version"]) == (7, 3, "toy@0123456789ab")
    assert "reason" not in line
    assert "secret" not in log.getvalue()


def test_callers_cannot_invent_labels(log: io.StringIO, clock: ManualClock) -> None:
    """A request for a model that does not exist is counted under one name, whatever it asked for."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, clock.monotonic)
    for i in range(20):
        ledger.record(calls.call(version=None, model=f"made-up-{i}"), None, OK)
    told = metrics.exposition().decode()
    assert "made-up" not in told
    assert f'model="{UNKNOWN}",outcome="ok",tenant="acme"}} 20.0' in told


def test_refusals_are_counted_by_code_and_crashes_told_by_place(log: io.StringIO, clock: ManualClock) -> None:
    """A crash's text may hold a prompt, so only its kind and place are logged."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, clock.monotonic)
    ledger.refused(NoCapacity(), RequestId("r"))
    try:
        raise ValueError("a secret")
    except ValueError as error:
        ledger.crashed(error, RequestId("r"))
    assert 'penstock_refusals_total{code="no_capacity"} 1.0' in metrics.exposition().decode()
    crashed = json.loads(log.getvalue().splitlines()[-1])
    assert crashed["error_type"] == "ValueError"
    assert re.fullmatch(r"test_requests\.py:\d+", crashed["reason"])
    assert "secret" not in log.getvalue()


@given(
    st.lists(st.floats(min_value=0, max_value=10, allow_nan=False) | st.sampled_from([0.001, 0.01, 2.5]), max_size=50)
)
def test_many_observations_at_once_equal_one_by_one(values: list[float]) -> None:
    """The quick way through the client's own cells counts exactly as the public one."""
    quick, plain = Metrics([names.ITL_SECONDS]), Metrics([names.ITL_SECONDS])
    labels = {"model": "m", "tier": "chat"}
    observe_many(quick.histogram(names.ITL_SECONDS).labels(**labels), values)
    for value in values:
        plain.histogram(names.ITL_SECONDS).labels(**labels).observe(value)

    def counts(metrics: Metrics) -> list[str]:
        return [line for line in metrics.exposition().decode().splitlines() if "_bucket" in line or "_count" in line]

    plain.histogram(names.ITL_SECONDS).labels(**labels)
    assert counts(quick) == counts(plain)


def test_a_trace_is_continued_or_begun() -> None:
    """The caller's context is kept whole; otherwise a new one is sampled at the ratio."""
    chance = random.Random(1)
    given_context = "00-" + "a" * 32 + "-" + "b" * 16 + "-00"
    assert traceparent(given_context, 1.0, chance) == given_context
    made = [traceparent("", 0.25, chance) for _ in range(1000)]
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", context) for context in made)
    assert len(set(made)) == 1000
    assert 180 < sum(context.endswith("01") for context in made) < 320


def test_a_sampled_request_exports_a_span_per_stage(clock: ManualClock) -> None:
    """Stages follow one another inside the request's span, under the caller's own."""
    exporter = InMemorySpanExporter()
    traces = RequestTraces(exporter, clock.now, clock.monotonic)
    sampled = calls.call(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    for stage, seconds in ((Stage.AUTH, 0.1), (Stage.EDGE, 0.2)):
        sampled.timings.put(stage, seconds)
    clock.advance(0.5)
    traces.finished(calls.call(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-00"), OK)
    traces.finished(sampled, OK)
    traces.close()
    auth, edge, request = exporter.get_finished_spans()
    assert (auth.name, edge.name, request.name) == ("auth", "edge", "request")
    assert auth.parent is not None
    assert request.parent is not None
    inside = request.get_span_context()
    assert inside is not None
    assert auth.parent.span_id == inside.span_id
    assert f"{request.parent.span_id:016x}" == "b" * 16
    assert auth.end_time == edge.start_time
    assert request.end_time is not None
    assert request.start_time is not None
    assert request.end_time - request.start_time == pytest.approx(0.5e9, abs=1e3)


def test_a_continued_stream_is_told_in_line_and_trace(log: io.StringIO, clock: ManualClock) -> None:
    """The line says how often another worker went on, the trace says when."""
    exporter = InMemorySpanExporter()
    traces = RequestTraces(exporter, clock.now, clock.monotonic)
    call = calls.call(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01", arrived_at=clock.monotonic())
    call.continued_at.append(clock.monotonic() + 0.25)
    clock.advance(0.5)
    RequestLedger(Metrics(), clock.monotonic, traces.finished).record(call, None, OK)
    traces.close()
    assert json.loads(log.getvalue())["continued"] == 1
    (request,) = exporter.get_finished_spans()
    (event,) = request.events
    assert request.start_time is not None
    assert event.name == "continued"
    assert event.timestamp - request.start_time == pytest.approx(0.25e9, abs=1e3)


def test_a_value_that_json_does_not_know_still_gives_a_line(log: io.StringIO) -> None:
    """A log call must never fail for what it is given: such a value is shown as Python shows it."""
    logs.logger().error("trouble", reason=ValueError("odd"), seconds=float("inf"), outcome=Outcome.OK)
    line = json.loads(log.getvalue())
    assert (line["reason"], line["seconds"], line["outcome"]) == ("ValueError('odd')", None, "ok")
