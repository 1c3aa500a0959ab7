"""OpenTelemetry traces of requests, in W3C context (J5): one span per stage, made after the fact from the timings.

The hot path carries a ``traceparent`` string and nothing else; spans are built when a sampled request has ended.
Without an endpoint nothing of this is imported or made. The caller's own sampling decision is followed.
"""

import random
from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.domain.call import Answer, Call

SAMPLED = "01"


def traceparent(given: str, ratio: float, chance: random.Random) -> str:
    """Return the caller's context, or a new one that is sampled with probability ``ratio``."""
    if given:
        return given
    flags = SAMPLED if chance.random() < ratio else "00"
    trace, span = chance.getrandbits(128) or 1, chance.getrandbits(64) or 1
    return f"00-{trace:032x}-{span:016x}-{flags}"


class RequestTraces:
    """Exports the traces of sampled requests."""

    def __init__(self, exporter: SpanExporter, now: Callable[[], float], monotonic: Callable[[], float]) -> None:
        """Take where spans go, and both readings of time: timings are monotonic, spans are not."""
        self._provider = TracerProvider(resource=Resource.create({"service.name": "penstock-gateway"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("penstock")
        self._now, self._monotonic = now, monotonic

    def finished(self, call: Call, answer: Answer) -> None:
        """Make the spans of a request that has ended, where it is sampled."""
        parent = call.request.traceparent
        if not parent.endswith(f"-{SAMPLED}"):
            return
        context = TraceContextTextMapPropagator().extract({"traceparent": parent}, context=Context())
        started = self._now() - (self._monotonic() - call.request.arrived_at)
        facts = _facts(call, answer)
        root = self._tracer.start_span("request", context=context, start_time=_ns(started), attributes=facts)
        at, stages = started, set_span_in_context(root, Context())
        for stage, seconds in call.timings.seconds.items():
            self._tracer.start_span(stage.value, context=stages, start_time=_ns(at)).end(_ns(at + seconds))
            at += seconds
        for moment in call.continued_at:
            root.add_event("continued", timestamp=_ns(started + moment - call.request.arrived_at))
        root.end(_ns(self._now()))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def otlp(endpoint: str) -> SpanExporter:
    """Return the exporter to a collector at this address (OTLP over HTTP)."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  costs 0.2 s

    return OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _facts(call: Call, answer: Answer) -> dict[str, str | int]:
    return {
        "penstock.request_id": call.request.id,
        "penstock.tenant": call.principal.tenant,
        "penstock.version": call.version.id if call.version else "",
        "penstock.worker": call.worker.id if call.worker else "",
        "penstock.outcome": answer.outcome.value,
        "penstock.prompt_tokens": answer.usage.prompt_tokens,
        "penstock.output_tokens": answer.usage.output_tokens,
    }
