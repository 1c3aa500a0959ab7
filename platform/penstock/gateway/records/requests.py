"""Counts finished and refused requests: metrics, one log line, a sampled trace. It never uses a prompt's text.

It runs once per request on the event loop: label children are kept, and token gaps are observed in one step.
"""

import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import PurePath

from penstock.domain.errors import NoCapacity, PenstockError, codes
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.models.model import Tier
from penstock.domain.money import MICRO_PER_USD
from penstock.domain.outcome import Outcome, Stage, outcome_of
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.credentials import NOBODY, Claim
from penstock.domain.tenancy.ledger import cost_of
from penstock.domain.tenancy.tenant import TierName
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.records.gen_ai import GenAi
from penstock.telemetry import logs, names
from penstock.telemetry.definitions import Label
from penstock.telemetry.metrics import Counted, Metrics, Observed, begin_at_zero, observe_many
from penstock.telemetry.tenants import OTHER, TenantLabels
from penstock.telemetry.w3c import trace_of

UNKNOWN = "unknown"
"""The model's label for a request without a version, so that callers can't create labels."""
MOST_CHILDREN, MOST_ZONES, MOST_VERSIONS = 4096, 64, 64

_TIERS = {Api.EMBEDDINGS: Tier.EMBEDDING, Api.CLASSIFY: Tier.CLASSIC, Api.INFER: Tier.CLASSIC}
"""The tier of a request without a version, by API; others count as chat."""

Trace = Callable[[Call, Answer], None]
Exemplar = dict[str, str] | None


_ASKED_AGAIN = frozenset({Outcome.NO_CAPACITY, Outcome.EVICTED, Outcome.OVER_BUDGET})
"""Ends after which a job goes back to its queue."""


class RequestLedger:
    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float],
        trace: Trace | None = None,
        tenants: TenantLabels | None = None,
        keep: Trace | None = None,
    ) -> None:
        self._clock, self._metrics = clock, metrics
        self._trace, self._keep = trace, keep
        self._tenants = tenants or TenantLabels()
        self._log = logs.logger()
        self._expected: set[Tier] = set()
        self._refusals = metrics.counter(names.REFUSALS)
        begin_at_zero(self._refusals, codes())
        self._early = metrics.counter(names.EARLY_REFUSALS)
        self._no_worker = metrics.counter(names.NO_WORKER)
        self._of_tier = metrics.counter(names.TIER_REQUESTS)
        self._copies = metrics.counter(names.SHADOW_COPIES)
        begin_at_zero(self._copies, Outcome)
        self._gen_ai = GenAi(metrics)
        self._children = lru_cache(maxsize=MOST_CHILDREN)(_children_of(metrics))

    def record(self, call: Call, answer: Answer) -> None:
        version = call.version
        model = _model(version) if version else UNKNOWN
        if call.copy is not None:
            self._copied(call, answer, model)
            return
        if call.principal.is_job and answer.outcome in _ASKED_AGAIN:
            return  # it never ran: the attempt that does is the request
        tier = call.principal.tier.slo or (version.tier if version else _TIERS.get(call.request.api, Tier.CHAT))
        tenant = self._tenants.of(call.principal.tenant, self._dropped)
        children = self._children(model, tier.value, tenant, call.request.api.value)
        exemplar = _exemplar(call) if self._trace is not None else None
        seconds = self._clock() - call.request.arrived_at
        children.count(call, answer, seconds, exemplar)
        self._gen_ai.count(call, answer, seconds)
        children.tell_weight(call.principal.plan.weight)
        is_refused = answer.refusal is not None and answer.refusal.code == NoCapacity.code
        if version is not None and (is_refused or Stage.WAKE in call.timings.seconds):
            self._no_worker.labels(version=version.base or version.id).inc()
        _line(call, answer, model, seconds)
        if self._keep is not None:
            self._keep(call, answer)
        if self._trace is not None:
            self._trace(call, answer)

    def _copied(self, call: Call, answer: Answer, model: str) -> None:
        self._copies.labels(outcome=answer.outcome.value).inc()
        _line(call, answer, model, self._clock() - call.request.arrived_at)
        if self._keep is not None:
            self._keep(call, answer)

    def expect(self, *versions: VersionEntry) -> None:
        """Begin the series: one that began at its first bad event would hide it from ``rate``."""
        for version in versions:
            if version.tier in self._expected:
                continue
            self._expected.add(version.tier)
            for api in Api:
                if version.task in api.tasks:
                    self._children(_model(version), version.tier.value, OTHER, api.value)

    def refused(
        self, error: PenstockError, request_id: RequestId, claim: Claim = NOBODY, *, api: Api | None = Api.CHAT
    ) -> None:
        """Count a refusal.

        Without a version the API determines the tier; for other routes the tier that pages first is charged.
        """
        self._refusals.labels(code=error.code).inc()
        outcome = outcome_of(error.outcome, error.reason)
        if api is not None and outcome.spends_error_budget:
            self._of_tier.labels(tier=_TIERS.get(api, Tier.CHAT).value, outcome=outcome.value).inc()
        logs.often(
            "request_refused",
            request_id=request_id,
            tenant=claim.tenant,
            key_id=claim.key,
            code=error.code,
            outcome=error.outcome,
        )

    def refused_early(self, tenant: TenantId, outcome: Outcome) -> None:
        self._early.labels(tenant=self._tenants.of(tenant, self._dropped), outcome=outcome.value).inc()

    def crashed(self, error: BaseException, request_id: RequestId) -> None:
        self._log.error("request_crashed", request_id=request_id, error_type=type(error).__name__, reason=_place(error))

    def _dropped(self, tenant: str) -> None:
        self._children.cache_clear()
        self._metrics.drop(Label.TENANT, tenant)


class _Children:
    def __init__(self, metrics: Metrics, model: str, tier: str, tenant: str, api: str) -> None:
        stage = metrics.histogram(names.STAGE_SECONDS)
        self.stages = {s: Observed(stage.labels(stage=s.value, model=model)) for s in Stage}
        self.seconds = Observed(metrics.histogram(names.REQUEST_SECONDS).labels(api=api, model=model, tier=tier))
        self.ttft = Observed(metrics.histogram(names.TTFT_SECONDS).labels(model=model, tier=tier))
        self.visible = Observed(metrics.histogram(names.VISIBLE_TTFT_SECONDS).labels(model=model, tier=tier))
        self.itl = metrics.histogram(names.ITL_SECONDS).labels(model=model, tier=tier)
        self.tenant_ttft = Observed(metrics.histogram(names.TENANT_TTFT_SECONDS).labels(tenant=tenant))
        self.tenant_itl = metrics.histogram(names.TENANT_ITL_SECONDS).labels(tenant=tenant)
        of_tenant = (names.PROMPT_TOKENS, names.CACHED_TOKENS, names.OUTPUT_TOKENS, names.BILLED_DOLLARS)
        self.prompt, self.cached, self.output, self.billed = (
            Counted(metrics.counter(name).labels(model=model, tenant=tenant)) for name in of_tenant
        )
        of_version = metrics.counter(names.VERSION_TOKENS)
        self._of_version = lru_cache(MOST_VERSIONS)(lambda version: Counted(of_version.labels(version, tenant)))
        self._told_weight = 0
        self._weight = metrics.gauge(names.TENANT_WEIGHT).labels(tenant=tenant)
        self.queued = Observed(metrics.histogram(names.TENANT_QUEUE_SECONDS).labels(tenant=tenant))
        self._fallbacks = metrics.counter(names.FALLBACKS).labels(model=model)
        self._degraded = partial(metrics.counter(names.DEGRADED).labels, model=model)
        served, billed = metrics.counter(names.SERVICE_TIER_REQUESTS), metrics.counter(names.SERVICE_TIER_DOLLARS)
        self._served = lru_cache(len(TierName) * len(Outcome))(lambda *of: Counted(served.labels(*of)))
        self._billed_to = lru_cache(len(TierName))(lambda tier: Counted(billed.labels(tier)))
        zone_ttft, zone_itl = metrics.histogram(names.ZONE_TTFT_SECONDS), metrics.histogram(names.ZONE_ITL_SECONDS)
        self._of_zone = lru_cache(maxsize=MOST_ZONES)(
            lambda zone: (Observed(zone_ttft.labels(zone=zone)), zone_itl.labels(zone=zone))
        )
        requests = metrics.counter(names.REQUESTS)
        self._outcomes = {
            one: Counted(requests.labels(api=api, model=model, tenant=tenant, outcome=one.value)) for one in Outcome
        }
        of_tier, stream_of_tier = metrics.counter(names.TIER_REQUESTS), metrics.counter(names.TIER_STREAMS)
        self._of_tier = {one: Counted(of_tier.labels(tier=tier, outcome=one.value)) for one in Outcome}
        self._streams_of_tier = {one: Counted(stream_of_tier.labels(tier=tier, outcome=one.value)) for one in Outcome}

    def count(self, call: Call, answer: Answer, seconds: float, exemplar: Exemplar) -> None:
        is_stream = call.request.stream and answer.ttft_s is not None
        call.tell_outcome(answer, self._count_stream if is_stream else self._count_whole)
        if answer.outcome is Outcome.OK:
            self.seconds.observe(seconds - call.timings.seconds.get(Stage.UPLOAD, 0.0), exemplar)
        for stage, spent in call.timings.seconds.items():
            self.stages[stage].observe(spent, exemplar)
        if (queued := call.timings.seconds.get(Stage.QUEUE)) is not None:
            self.queued.observe(queued)
        if answer.ttft_s is not None and is_stream:
            self.visible.observe(answer.ttft_s if answer.visible_s is None else answer.visible_s)
            self._count_times(call, answer.ttft_s, answer.itl_s, exemplar)
        if call.fell_back_from:
            self._fallbacks.inc()
        for lack in call.degraded:
            self._degraded(reason=lack).inc()
        self._count_usage(call, answer)

    def tell_weight(self, weight: int) -> None:
        if weight != self._told_weight:
            self._told_weight = weight
            self._weight.set(weight)

    def _count_times(self, call: Call, ttft_s: float, itl_s: Sequence[float], exemplar: Exemplar) -> None:
        self.ttft.observe(ttft_s, exemplar)
        self.tenant_ttft.observe(ttft_s)
        gaps = sorted(itl_s)
        observe_many(self.itl, gaps)
        observe_many(self.tenant_itl, gaps)
        if call.attempts.worker is not None and call.attempts.worker.zone:
            ttft, itl = self._of_zone(call.attempts.worker.zone)
            ttft.observe(ttft_s)
            observe_many(itl, gaps)

    def _count_usage(self, call: Call, answer: Answer) -> None:
        usage = answer.usage
        self.prompt.inc(usage.prompt_tokens)
        self.output.inc(usage.output_tokens)
        if usage.cached_tokens:
            self.cached.inc(usage.cached_tokens)
        if call.version is not None:
            self._of_version(call.version.base or call.version.id).inc(usage.total_tokens)
            tier = call.principal.tier
            dollars = cost_of(call.version.price.at(tier.price_factor), usage) / MICRO_PER_USD
            self.billed.inc(dollars)
            self._served(tier.name, answer.outcome).inc()
            self._billed_to(tier.name).inc(dollars)

    def _count_whole(self, outcome: Outcome) -> None:
        self._outcomes[outcome].inc()
        self._of_tier[outcome].inc()

    def _count_stream(self, outcome: Outcome) -> None:
        self._count_whole(outcome)
        self._streams_of_tier[outcome].inc()


def _line(call: Call, answer: Answer, model: str, seconds: float) -> None:
    usage, version, worker = answer.usage, call.version, call.attempts.worker
    trace = trace_of(call.request.traceparent)
    logs.often(
        "request",
        request_id=call.request.id,
        **({"trace_id": trace} if trace else {}),
        tenant=call.principal.tenant,
        key_id=call.principal.key,
        api=call.request.api,
        model=model,
        version=version.id if version else "",
        worker=worker.id if worker else "",
        attempt=call.attempts.count,
        continued=len(call.attempts.continued_at),
        outcome=answer.outcome,
        degraded=",".join(call.degraded),
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        seconds=round(seconds, 6),
        stages_ms={stage: round(spent * 1e3, 3) for stage, spent in call.timings.seconds.items()},
    )


def _exemplar(call: Call) -> Exemplar:
    trace = trace_of(call.request.traceparent)
    return {"trace_id": trace} if trace else None


def _children_of(metrics: Metrics) -> Callable[[str, str, str, str], _Children]:
    return lambda model, tier, tenant, api: _Children(metrics, model, tier, tenant, api)


def _model(version: VersionEntry) -> str:
    return version.id.partition("@")[0]


def _place(error: BaseException) -> str:
    """Innermost frames of our own code, as ``file:line``."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{PurePath(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
