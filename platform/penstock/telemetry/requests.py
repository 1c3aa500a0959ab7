"""Counts finished and refused requests: metrics, one log line, a trace where sampled. Never a word of a prompt.

It runs once per request on the event loop, so label children are made once and kept, and a stream's token gaps go
into their histogram in one step.
"""

import traceback
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import PurePath

from prometheus_client import Counter, Histogram

from penstock.domain.call import Answer, Call
from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.request import Prepared
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics, TenantLabels, observe_many

UNKNOWN = "unknown"
"""The model's label where a request never got as far as a version: callers must not invent labels."""
MOST_CHILDREN = 4096

Trace = Callable[[Call, Answer], None]


class RequestLedger:
    """Implements the pipeline's ``Ledger`` and the edge's ``ErrorObserver``."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float],
        trace: Trace | None = None,
        tenants: TenantLabels | None = None,
    ) -> None:
        """Take the process's metrics, monotonic time, where traces go, and how tenants are shown."""
        self._clock = clock
        self._trace = trace
        self._tenants = tenants or TenantLabels()
        self._log = logs.logger()
        self._refusals = metrics.counter(names.REFUSALS)
        self._children = lru_cache(maxsize=MOST_CHILDREN)(_children_of(metrics))

    def record(self, call: Call, prepared: Prepared | None, answer: Answer) -> None:
        """Count a request that the corridor saw, once."""
        del prepared
        version = call.version
        model = version.id.partition("@")[0] if version else UNKNOWN
        tier = version.tier.value if version else UNKNOWN
        tenant = self._tenants.of(call.principal.tenant)
        children = self._children(model, tier, tenant, call.request.api.value)
        children.count(call, answer, self._clock() - call.request.arrived_at)
        self._line(call, answer, model)
        if self._trace is not None:
            self._trace(call, answer)

    def refused(self, error: PenstockError, request_id: RequestId) -> None:
        """Count an error response by its code; those that never reached the corridor get their line here."""
        self._refusals.labels(code=error.code).inc()
        self._log.info("request_refused", request_id=request_id, code=error.code, outcome=error.outcome)

    def crashed(self, error: BaseException, request_id: RequestId) -> None:
        """Log a fault of our own by its kind and place; its text may hold a prompt."""
        self._log.error("request_crashed", request_id=request_id, error_type=type(error).__name__, reason=_place(error))

    def _line(self, call: Call, answer: Answer, model: str) -> None:
        usage = answer.usage
        self._log.info(
            "request",
            request_id=call.request.id,
            tenant=call.principal.tenant,
            key_id=call.principal.key,
            api=call.request.api,
            model=model,
            version=call.version.id if call.version else "",
            worker=call.worker.id if call.worker else "",
            attempt=call.attempts,
            continued=len(call.continued_at),
            outcome=answer.outcome,
            degraded=",".join(call.degraded),
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            seconds=round(self._clock() - call.request.arrived_at, 6),
            stages_ms={stage: round(seconds * 1e3, 3) for stage, seconds in call.timings.seconds.items()},
        )


class _Children:
    """The label children of one combination of model, tier, tenant and API."""

    def __init__(self, metrics: Metrics, model: str, tier: str, tenant: str, api: str) -> None:
        stage = metrics.histogram(names.STAGE_SECONDS)
        self.stages: dict[Stage, Histogram] = {s: stage.labels(stage=s.value, model=model) for s in Stage}
        self.seconds = metrics.histogram(names.REQUEST_SECONDS).labels(api=api, model=model)
        self.ttft = metrics.histogram(names.TTFT_SECONDS).labels(model=model, tier=tier)
        self.itl = metrics.histogram(names.ITL_SECONDS).labels(model=model, tier=tier)
        self.prompt = metrics.counter(names.PROMPT_TOKENS).labels(model=model, tenant=tenant)
        self.cached = metrics.counter(names.CACHED_TOKENS).labels(model=model, tenant=tenant)
        self.output = metrics.counter(names.OUTPUT_TOKENS).labels(model=model, tenant=tenant)
        self._degraded = partial(metrics.counter(names.DEGRADED).labels, model=model)
        requests = metrics.counter(names.REQUESTS)
        self._of_outcome = partial(requests.labels, api=api, model=model, tenant=tenant)
        self._outcomes: dict[Outcome, Counter] = {}

    def count(self, call: Call, answer: Answer, seconds: float) -> None:
        if answer.outcome not in self._outcomes:
            self._outcomes[answer.outcome] = self._of_outcome(outcome=answer.outcome.value)
        self._outcomes[answer.outcome].inc()
        self.seconds.observe(seconds)
        for stage, spent in call.timings.seconds.items():
            self.stages[stage].observe(spent)
        if call.request.stream and answer.ttft_s is not None:
            self.ttft.observe(answer.ttft_s)
            observe_many(self.itl, answer.itl_s)
        for lack in call.degraded:
            self._degraded(reason=lack).inc()
        usage = answer.usage
        self.prompt.inc(usage.prompt_tokens)
        self.cached.inc(usage.cached_tokens)
        self.output.inc(usage.output_tokens)


def _children_of(metrics: Metrics) -> Callable[[str, str, str, str], _Children]:
    return lambda model, tier, tenant, api: _Children(metrics, model, tier, tenant, api)


def _place(error: BaseException) -> str:
    """Return the innermost places of our own code that the error passed, as ``file:line``."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
