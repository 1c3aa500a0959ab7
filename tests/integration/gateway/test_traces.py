"""Traces and exemplars of a real gateway, read by others' classes: an OTLP receiver, the OpenMetrics parser."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.gateways.process import prepare, started
from tests.support.monitoring.otlp import collector
from tests.support.patience import until

pytestmark = pytest.mark.integration
SECRET = "secret-word-of-the-prompt"
CHAT = {"model": "toy", "messages": [{"role": "user", "content": SECRET}], "max_tokens": 4, "stream": True}
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def engine() -> Iterator[str]:
    """Yield the address of a stub engine."""
    command = [sys.executable, "-m", "tests.support.engines.stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.kill()


def test_a_latency_leads_to_a_trace_that_joins_the_callers(tmp_path: Path, engine: str) -> None:
    """From the metrics' exemplar to the spans in the caller's trace, and the prompt stands in none of them."""
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    with collector() as receiver, started(prepare(tmp_path, engine), PENSTOCK_OTLP_ENDPOINT=receiver.url) as gateway:
        with gateway.http() as client:
            client.post("/v1/chat/completions", json=CHAT, headers=headers).raise_for_status()
        accept = {"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
        metrics = httpx.get(gateway.metrics_url, headers=accept, trust_env=False)
        gateway.signal()
        gateway.process.wait(20)
        until("its spans have come", lambda: "request" in receiver.spans(), within_s=5)
        spans = receiver.spans()
    assert metrics.headers["content-type"].startswith("application/openmetrics-text")
    families = text_string_to_metric_families(metrics.text)  # type: ignore[no-untyped-call]
    samples = [one for family in families for one in family.samples]
    led = {one.name for one in samples if one.exemplar and one.exemplar.labels == {"trace_id": TRACE}}
    assert led == {"penstock_request_seconds_bucket", "penstock_stage_seconds_bucket", "penstock_ttft_seconds_bucket"}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["request"].parent_span_id.hex() == CALLER
    assert {"auth", "edge", "preprocess", "admission", "route", "attempt", "prefill", "decode"} <= spans.keys()
    assert spans["attempt"].parent_span_id == spans["request"].span_id
    assert spans["decode"].parent_span_id == spans["attempt"].span_id
    assert spans["request"].start_time_unix_nano <= spans["decode"].start_time_unix_nano
    assert not [raw for raw in receiver.raw if SECRET.encode() in raw]


def test_who_takes_plain_text_gets_it(tmp_path: Path, engine: str) -> None:
    """A scraper that knows no OpenMetrics is answered as ever."""
    with started(prepare(tmp_path, engine)) as gateway:
        answer = httpx.get(gateway.metrics_url, headers={"accept": "text/plain"}, trust_env=False)
        assert answer.headers["content-type"].startswith("text/plain")
        assert "# EOF" not in answer.text
