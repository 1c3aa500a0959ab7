"""OpenTelemetry traces of requests in W3C context (J5); spans are built from the timings of an ended request.

The worker receives the request's span id, so that the engine's spans are its children. The caller's sampling decision
is followed. Without an endpoint OpenTelemetry is not imported.
"""

from collections.abc import Callable
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import Waited
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.records import gen_ai
from penstock.telemetry.w3c import SPAN, TRACE, is_sampled

_AT_THE_WORKER = frozenset(
    {Stage.ADAPTER, Stage.QUEUE, Stage.BATCH_WAIT, Stage.PREPARE, Stage.COMPUTE, Stage.PREFILL, Stage.DECODE}
)


class _Ids(RandomIdGenerator):
    def __init__(self) -> None:
        self._next: tuple[int, int] | None = None

    def take(self, context: str) -> None:
        self._next = int(context[TRACE], 16), int(context[SPAN], 16)

    def generate_trace_id(self) -> int:
        return self._next[0] if self._next is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        ids, self._next = self._next, None
        return ids[1] if ids is not None else super().generate_span_id()


class _Times(NamedTuple):
    arrived: float
    seconds: float


class RequestTraces:
    def __init__(self, exporter: SpanExporter, now: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._ids = _Ids()
        resource = Resource.create({"service.name": "penstock-gateway"})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("penstock")
        self._now, self._monotonic = now, monotonic

    def finished(self, call: Call, answer: Answer) -> None:
        request = call.request
        if not is_sampled(request.traceparent):
            return
        seconds = self._monotonic() - request.arrived_at
        times = _Times(self._now() - seconds, seconds)
        root = self._root(call, answer, times)
        worker = self._attempts(call, root, times)
        at = times.arrived
        for stage, spent in call.timings.seconds.items():
            parent = worker if stage in _AT_THE_WORKER else root
            self._span(stage.value, parent, at, at + spent)
            at += spent
        for moment in call.attempts.continued_at:
            root.add_event("continued", timestamp=_ns(times.arrived + moment - request.arrived_at))
        root.end(_ns(times.arrived + times.seconds))

    def close(self) -> None:
        self._provider.shutdown()

    def _root(self, call: Call, answer: Answer, times: _Times) -> Span:
        given = call.request.caller_trace
        caller = TraceContextTextMapPropagator().extract({"traceparent": given}, context=Context())
        self._ids.take(call.request.traceparent)
        facts = _facts(call, answer)
        root = self._tracer.start_span("request", context=caller, start_time=_ns(times.arrived), attributes=facts)
        if answer.outcome is not Outcome.OK:
            root.set_status(Status(StatusCode.ERROR, answer.refusal.code if answer.refusal else answer.outcome))
        return root

    def _attempts(self, call: Call, root: Span, times: _Times) -> Span:
        last = root
        ends = [*(one.sent_s for one in call.attempts.trail[1:]), times.seconds]
        for one, end_s in zip(call.attempts.trail, ends, strict=False):  # refused before it was sent: none at all
            facts: dict[str, str | float] = {"penstock.worker": one.worker, "penstock.failed": one.failed}
            if isinstance(one.door, Waited):
                facts |= {"penstock.predicted_wait_s": one.door.predicted_s, "penstock.wait_s": one.door.waited_s}
            last = self._span("attempt", root, times.arrived + one.sent_s, times.arrived + end_s, facts)
        return last

    def _span(
        self, name: str, parent: Span, start: float, end: float, facts: dict[str, str | float] | None = None
    ) -> Span:
        context = set_span_in_context(parent, Context())
        span = self._tracer.start_span(name, context=context, start_time=_ns(start), attributes=facts)
        span.end(_ns(end))
        return span


def otlp(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  costs 0.2 s

    return OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


def _facts(call: Call, answer: Answer) -> dict[str, gen_ai.Value]:
    return {
        "penstock.request_id": call.request.id,
        "penstock.tenant": call.principal.tenant,
        "penstock.version": call.version.id if call.version else "",
        "penstock.worker": call.attempts.worker.id if call.attempts.worker else "",
        "penstock.outcome": answer.outcome.value,
        "penstock.prompt_tokens": answer.usage.prompt_tokens,
        "penstock.output_tokens": answer.usage.output_tokens,
        **gen_ai.attributes(call, answer),
    }
