import io
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_fd_to_metric_families

from penstock.domain.errors import DeadlineUnreachable, NoCapacity, Overloaded, PenstockError
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, RequestId, TenantId, VersionId, WorkerId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.shadow import Copy
from penstock.domain.serving.slo import Pace
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer
from penstock.gateway.calls.lease import Lease
from penstock.gateway.records.requests import UNKNOWN, RequestLedger
from penstock.gateway.records.traces import RequestTraces
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Counted, Metrics, Observed, observe_many
from tests.support.clock import ManualClock
from tests.support.samples import calls

SAMPLED = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
OK = Answer(
    outcome=Outcome.OK,
    usage=Usage(prompt_tokens=7, output_tokens=3, cached_tokens=2),
    ttft_s=0.2,
    itl_s=(0.01, 0.02, 5.0),
)


def test_a_finished_stream_is_counted_once_in_every_metric(log: io.StringIO, clock: ManualClock) -> None:
    """Outcome, tokens, first token, gaps and stages each get their share."""
    metrics = Metrics()
    call = calls.call(stream=True)
    call.timings.put(Stage.QUEUE, 0.5)
    clock.advance(2.0)
    RequestLedger(metrics, clock.monotonic).record(call, OK)
    told = metrics.exposition().decode()
    labels = 'api="/v1/chat/completions",model="toy"'
    assert f'penstock_requests_total{{{labels},outcome="ok",tenant="acme"}} 1.0' in told
    assert f'penstock_request_seconds_sum{{{labels},tier="chat"}} 2.0' in told
    assert 'penstock_tier_requests_total{outcome="ok",tier="chat"} 1.0' in told
    assert 'penstock_tier_streams_total{outcome="ok",tier="chat"} 1.0' in told
    assert 'penstock_output_tokens_total{model="toy",tenant="acme"} 3.0' in told
    assert 'penstock_ttft_seconds_sum{model="toy",tier="chat"} 0.2' in told
    assert 'penstock_visible_ttft_seconds_sum{model="toy",tier="chat"} 0.2' in told
    assert 'penstock_itl_seconds_count{model="toy",tier="chat"} 3.0' in told
    assert 'penstock_stage_seconds_sum{model="toy",stage="queue"} 0.5' in told
    assert 'penstock_billed_dollars_total{model="toy",tenant="acme"} 1e-06' in told
    assert 'penstock_version_tokens_total{tenant="acme",version="toy@0123456789ab"} 10.0' in told
    assert 'penstock_tenant_weight{tenant="acme"} 1.0' in told


def test_a_shadow_copy_is_nobodys_request(log: io.StringIO, clock: ManualClock) -> None:
    """It has its line and its own counter; no promise, tenant or latency sees it."""
    metrics, kept = Metrics(), list[str]()
    ledger = RequestLedger(metrics, clock.monotonic, keep=lambda call, _: kept.append(call.request.id))
    before = metrics.exposition().decode().splitlines()
    call = calls.call(stream=True)
    call = replace(call, copy=Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("acme"), sticky="acme"))
    ledger.record(call, replace(OK, outcome=Outcome.ENGINE_ERROR))
    changed = [line for line in metrics.exposition().decode().splitlines() if line not in before]
    assert changed == ['penstock_gateway_shadow_copies_total{outcome="engine_error"} 1.0']
    assert (kept, json.loads(log.getvalue())["request_id"]) == (["req-1"], "req-1")


@pytest.mark.parametrize("outcome", [Outcome.NO_CAPACITY, Outcome.EVICTED, Outcome.OVER_BUDGET, Outcome.ENGINE_ERROR])
def test_a_job_that_goes_back_is_no_request_yet(log: io.StringIO, clock: ManualClock, outcome: Outcome) -> None:
    """A refusal before it ran is asked again, and breaks no promise; an attempt that ran counts like any request."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, clock.monotonic)
    before = metrics.exposition().decode().splitlines()
    call = calls.call(stream=True)
    call = replace(call, principal=replace(call.principal, is_job=True))
    ledger.record(call, replace(OK, outcome=outcome))
    changed = [line for line in metrics.exposition().decode().splitlines() if line not in before]
    assert bool(changed) is (outcome is Outcome.ENGINE_ERROR)


def test_a_slow_upload_is_no_latency(log: io.StringIO, clock: ManualClock) -> None:
    """What the caller took to send its body stands in its own stage, and counts against no objective."""
    metrics = Metrics()
    call = calls.call()
    call.timings.put(Stage.UPLOAD, 30.0)
    clock.advance(30.5)
    RequestLedger(metrics, clock.monotonic).record(call, OK)
    told = metrics.exposition().decode()
    assert 'penstock_request_seconds_sum{api="/v1/chat/completions",model="toy",tier="chat"} 0.5' in told
    assert 'penstock_stage_seconds_sum{model="toy",stage="upload"} 30.0' in told


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.OK])
def test_only_who_is_served_has_a_latency(log: io.StringIO, clock: ManualClock, outcome: Outcome) -> None:
    """A quick refusal is no quick answer: a flood of bad requests must not make slow answers look rare."""
    metrics = Metrics()
    RequestLedger(metrics, clock.monotonic).record(calls.call(), replace(OK, outcome=outcome))
    told = metrics.exposition().decode()
    assert 'penstock_request_seconds_count{api="/v1/chat/completions",model="toy",tier="chat"} 0.0' in told


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (Overloaded(reason="tenant_queue"), "over_limit"),
        (DeadlineUnreachable(reason="tenant_queue"), "over_limit"),
        (Overloaded(), "no_capacity"),
    ],
)
def test_a_tenants_own_queue_is_no_lack_of_capacity(
    log: io.StringIO, clock: ManualClock, error: PenstockError, counted: str
) -> None:
    """Who is refused for what it has waiting itself spends nobody's error budget; overload of all does."""
    metrics = Metrics()
    call = calls.call()
    RequestLedger(metrics, clock.monotonic).record(call, Answer.refused(error, Usage()))
    told = metrics.exposition().decode()
    assert f'penstock_tier_requests_total{{outcome="{counted}",tier="chat"}} 1.0' in told


@pytest.mark.parametrize(("own", "counted"), [(True, "own_deadline"), (False, "deadline")])
def test_a_callers_own_deadline_breaks_no_promise(
    log: io.StringIO, clock: ManualClock, own: bool, counted: str
) -> None:
    """Who gives a millisecond raises no alarm and freezes no rollout: as a promise sees it, such a caller has left."""
    metrics = Metrics()
    call = calls.call(stream=True, deadline_s=0.001)
    lease = Lease(opened_at=0.0, deadline_at=0.001)
    call = replace(call, own_deadline=own, pace=Pace(first_s=1.0), lease=lease)
    RequestLedger(metrics, clock.monotonic).record(call, replace(OK, outcome=Outcome.DEADLINE))
    told = metrics.exposition().decode()
    assert f'penstock_tier_requests_total{{outcome="{counted}",tier="chat"}} 1.0' in told
    assert f'penstock_tier_streams_total{{outcome="{counted}",tier="chat"}} 1.0' in told
    assert f'model="toy",outcome="{counted}",tenant="acme"}} 1.0' in told


def test_a_version_has_its_series_before_its_first_request(log: io.StringIO, clock: ManualClock) -> None:
    """A series that begins at its first failure hides it from every rate, so each outcome is there at zero."""
    metrics = Metrics()
    RequestLedger(metrics, clock.monotonic).expect(calls.VERSION)
    told = metrics.exposition().decode()
    for outcome in Outcome:
        assert f'penstock_tier_requests_total{{outcome="{outcome}",tier="chat"}} 0.0' in told
        assert f'penstock_tier_streams_total{{outcome="{outcome}",tier="chat"}} 0.0' in told
    assert 'penstock_ttft_seconds_count{model="toy",tier="chat"} 0.0' in told
    assert 'penstock_request_seconds_count{api="/v1/responses",model="toy",tier="chat"} 0.0' in told


def test_waits_are_told_by_tenant_and_first_tokens_by_zone(log: io.StringIO, clock: ManualClock) -> None:
    """Who waits is told apart from who lets wait, and a zone from the others; workers without a zone are in none."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, clock.monotonic)
    for zone in ("", "z1"):
        call = calls.call(stream=True)
        call.attempts.worker = WorkerEntry(id=WorkerId("w"), url="http://w:1", state=WorkerState.READY, zone=zone)
        call.timings.put(Stage.QUEUE, 0.5)
        ledger.record(call, OK)
    refused = calls.call(stream=True)
    ledger.record(refused, Answer(outcome=Outcome.NO_CAPACITY, usage=Usage()))
    told = metrics.exposition().decode()
    assert 'penstock_tenant_queue_seconds_count{tenant="acme"} 2.0' in told
    assert 'penstock_tenant_queue_seconds_sum{tenant="acme"} 1.0' in told
    assert 'penstock_zone_ttft_seconds_sum{zone="z1"} 0.2' in told
    assert 'zone=""' not in told


def test_a_line_tells_everything_but_the_text(log: io.StringIO, clock: ManualClock) -> None:
    """The log has ids, outcome, tokens and stages, and no word of the prompt."""
    body = {"model": "toy", "messages": [{"role": "user", "content": "a secret"}]}
    RequestLedger(Metrics(), clock.monotonic).record(calls.call(body=body), OK)
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
        ledger.record(calls.arrived(model=f"made-up-{i}"), OK)
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

    single = Metrics([names.ITL_SECONDS])
    observed = Observed(single.histogram(names.ITL_SECONDS).labels(**labels))
    for value in values:
        observed.observe(value)

    def counts(metrics: Metrics) -> list[str]:
        return [line for line in metrics.exposition().decode().splitlines() if "_bucket" in line or "_count" in line]

    plain.histogram(names.ITL_SECONDS).labels(**labels)
    assert counts(quick) == counts(plain) == counts(single)
    total = "penstock_itl_seconds_sum", labels
    assert single.registry.get_sample_value(*total) == plain.registry.get_sample_value(*total)


def test_counting_without_a_lock_equals_the_clients_own() -> None:
    """A gauge goes up and down as by the public way."""
    quick, plain = Metrics([names.IN_FLIGHT]), Metrics([names.IN_FLIGHT])
    counted, gauge = Counted(quick.gauge(names.IN_FLIGHT).labels("m")), plain.gauge(names.IN_FLIGHT).labels("m")
    for by in (1, 1.5, -1, 3):
        counted.inc(by)
        gauge.inc(by)
    assert quick.exposition() == plain.exposition()


def test_a_continued_stream_is_told_in_line_and_trace(log: io.StringIO, clock: ManualClock) -> None:
    """The line says how often another worker went on, the trace says when."""
    exporter = InMemorySpanExporter()
    traces = RequestTraces(exporter, clock.now, clock.monotonic)
    call = calls.call(traceparent=SAMPLED, arrived_at=clock.monotonic())
    call.attempts.continued_at.append(clock.monotonic() + 0.25)
    clock.advance(0.5)
    RequestLedger(Metrics(), clock.monotonic, traces.finished).record(call, OK)
    traces.close()
    line = json.loads(log.getvalue())
    assert (line["continued"], line["trace_id"]) == (1, "a" * 32)
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


def exemplars(metrics: Metrics) -> dict[tuple[str, str], str]:
    """Return the trace that each latency leads to, by metric and stage, as another library reads it."""
    return {
        (sample.name, sample.labels.get("stage", "")): sample.exemplar.labels["trace_id"]
        for family in text_string_to_metric_families(metrics.openmetrics().decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar is not None
    }


def test_latencies_lead_to_their_trace(log: io.StringIO, clock: ManualClock) -> None:
    """A sampled request leaves its trace's id at the buckets that it falls into; nothing else in them is changed."""
    metrics = Metrics()
    call = calls.call(stream=True, traceparent=SAMPLED)
    call.timings.put(Stage.QUEUE, 0.5)
    RequestLedger(metrics, clock.monotonic, lambda *_: None).record(call, OK)
    assert exemplars(metrics) == {
        ("penstock_request_seconds_bucket", ""): "a" * 32,
        ("penstock_stage_seconds_bucket", "queue"): "a" * 32,
        ("penstock_ttft_seconds_bucket", ""): "a" * 32,
    }
    assert "trace_id" not in metrics.exposition().decode()


@pytest.mark.parametrize("trace", [None, lambda *_: None])
def test_what_is_not_traced_here_has_no_exemplar(
    log: io.StringIO, clock: ManualClock, trace: Callable[..., None] | None
) -> None:
    """Without a collector, or unsampled, a latency would lead nowhere."""
    metrics = Metrics()
    context = SAMPLED if trace is None else SAMPLED[:-1] + "0"
    RequestLedger(metrics, clock.monotonic, trace).record(calls.call(stream=True, traceparent=context), OK)
    assert exemplars(metrics) == {}


def test_both_formats_have_the_same_numbers(log: io.StringIO, clock: ManualClock) -> None:
    """Which format a scraper takes changes no series."""
    metrics = Metrics()
    RequestLedger(metrics, clock.monotonic).record(calls.call(stream=True), OK)
    rich = text_string_to_metric_families(metrics.openmetrics().decode())  # type: ignore[no-untyped-call]
    plain = text_fd_to_metric_families(io.StringIO(metrics.exposition().decode()))
    found = [
        {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples if "_created" not in s.name}
        for families in (rich, plain)
    ]
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize(
    ("error", "held", "count"),
    [(NoCapacity(), False, 1.0), (Overloaded(), False, 0.0), (None, False, 0.0), (None, True, 1.0)],
)
def test_requests_without_a_worker_are_counted_by_version(
    log: io.StringIO, clock: ManualClock, error: PenstockError | None, held: bool, count: float
) -> None:
    """The version that callers were sent to is known, also if another one of its model serves."""
    metrics = Metrics()
    answer = OK if error is None else Answer.refused(error, Usage())
    adapter = replace(calls.VERSION, id=VersionId("adapter@1"), base=calls.VERSION.id)
    for version in (calls.VERSION, adapter):
        asked = calls.call(version=version)
        if held:
            asked.timings.mark(Stage.WAKE)
        RequestLedger(metrics, clock.monotonic).record(asked, answer)
    assert metrics.counter(names.NO_WORKER).labels(version=calls.VERSION.id)._value.get() == 2 * count
