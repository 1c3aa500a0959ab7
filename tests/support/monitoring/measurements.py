"""Measurements of a platform that a test describes in a few figures: real pages of real metrics, read twice.

Engines speak as vLLM does (its metrics' own help texts are what is relied on): `num_requests_running` is the batch,
`kv_cache_usage_perc` is 1 where the KV cache is full, `iteration_tokens_total` has one observation for each step, of
all tokens that the step computes, `num_preemptions` counts what was put back for lack of blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from prometheus_client import Histogram

from penstock.connectors.prometheus.page import Page, Reading, parse
from penstock.connectors.prometheus.window import PagesWindow
from penstock.diagnosis.recording import DEVICE_BUSY_PERCENT, Recording, record
from penstock.domain.errors import NoCapacity, Overloaded, StoreUnavailable, codes
from penstock.domain.fleet.worker import WorkerEnd, WorkerState
from penstock.domain.ids import VersionId
from penstock.domain.outcome import Outcome, Stage
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics, observe_many
from penstock.telemetry.series import Sample
from penstock.worker.engines import translate

SECONDS = 60.0
CHAT = "/v1/chat/completions"
MODEL, TIER = "m", "chat"
EVERYDAY = {
    Stage.EDGE: 0.0004,
    Stage.AUTH: 0.0001,
    Stage.UPLOAD: 0.0002,
    Stage.PREPROCESS: 0.001,
    Stage.ADMISSION: 0.0005,
    Stage.ROUTE: 0.0003,
    Stage.QUEUE: 0.002,
    Stage.PREFILL: 0.15,
    Stage.DECODE: 2.0,
    Stage.RELAY: 0.001,
}
"""What a request spends where nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant's requests: how many ended well, what each had, how long each waited; and those its limits refused."""

    requests: int = 40
    prompt: int = 200
    cached: int = 0
    output: int = 100
    wait_s: float = 0.002
    over_limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker: its batch, its door, its KV cache, on average; and what happened to its engine."""

    version: str = "m@000000000001"
    zone: str = ""
    running: float = 8
    slots: int = 64
    waiting: float = 0
    saturation: float = 0.2
    kv_used_ratio: float = 0.2
    preemptions: int = 0
    prefill_s: float = 0.15
    restarts: int = 0
    starts: int = 0
    failed: bool = False
    starting: Mapping[WorkerState, float] = field(default_factory=dict)
    """For which part of the time it was in which state on its way to ready."""
    queue_s: float = 0.01
    requests: int = 40
    """Requests that came through its queue."""

    @property
    def states(self) -> Mapping[WorkerState, float]:
        """The part of the time in each state; always ready by default."""
        away = {**self.starting, WorkerState.FAILED: float(self.failed)}
        return {state: away.get(state, 0.0) for state in WorkerState} | {WorkerState.READY: 1.0 - sum(away.values())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A platform in one minute. ``device`` is the GPUs' busy time in percent, None without an exporter.

    ``ttft_s`` and ``itl_s`` are values and how often each was seen.
    """

    tenants: Mapping[str, Tenant] = field(default_factory=lambda: {"a": Tenant(), "b": Tenant(), "c": Tenant()})
    workers: tuple[Worker, ...] = (Worker(),)
    stages: Mapping[Stage, float] = field(default_factory=lambda: EVERYDAY)
    ttft_s: Mapping[float, int] = field(default_factory=lambda: {0.2: 118, 0.9: 2})
    itl_s: Mapping[float, int] = field(default_factory=lambda: {0.02: 11_900, 0.15: 100})
    failed: Mapping[Outcome, int] = field(default_factory=dict)
    held: int = 0
    """Requests that waited for a worker and were answered."""
    overloaded: int = 0
    """How many of those that found no capacity found workers that are full."""
    called: str = ""
    """The version of requests that found no worker; by default the first that is wanted."""
    without_store: int = 0
    """Requests refused because the limits store or the spool's disk could not be used."""
    limits_away_ratio: float = 0.0
    spool_full_ratio: float = 0.0
    wanted: Mapping[str, float] | None = None
    """How many workers of each version there should be; as many as there are, where nothing is said."""
    loop_busy_ratio: float = 0.2
    loop_starved_ratio: float = 0.0
    lag_s: Mapping[float, int] = field(default_factory=lambda: {0.0008: 240})
    paused_s: float = 0.0
    zones: Mapping[str, float] = field(default_factory=dict)
    open_circuits: Mapping[str, float] = field(default_factory=dict)
    ejections: int = 0
    lost: Mapping[WorkerEnd, int] = field(default_factory=dict)
    """Workers of the first version that the controller found gone, by reason."""
    shares_limits: bool = True
    device: float | None = None


def recorded(site: Site, says: str = "built") -> Recording:
    """Return what a diagnosis would record of it."""
    before = {
        "http://gateway:1/metrics": Metrics().exposition().decode(),
        "http://controller:1/metrics": _controller(replace(site, lost=dict.fromkeys(site.lost, 0))),
    }
    after = {"http://gateway:1/metrics": _gateway(site), "http://controller:1/metrics": _controller(site)}
    for number, worker in enumerate(site.workers):
        place = f"http://worker-{number}:1/metrics"
        before[place], after[place] = _worker(Worker(), number, is_before=True), _worker(worker, number)
    window = PagesWindow([Reading(at=0.0, pages=_parsed(before)), Reading(at=SECONDS, pages=_parsed(after))])
    found = record(window, says)
    last = record(PagesWindow([Reading(at=0.0, pages=_parsed(after)), Reading(at=1.0, pages=_parsed(after))]))
    return replace(found, levels={**last.levels, **_device(site)})


def _parsed(texts: Mapping[str, str]) -> dict[str, Page]:
    return {place: parse(text, place[7:-8]) for place, text in texts.items()}


def _device(site: Site) -> dict[str, tuple[Sample, ...]]:
    return {} if site.device is None else {DEVICE_BUSY_PERCENT: (Sample(labels={"gpu": "0"}, value=site.device),)}


def _gateway(site: Site) -> str:
    metrics = Metrics()
    for name, tenant in site.tenants.items():
        _tenant(metrics, name, tenant)
    requests = sum(tenant.requests for tenant in site.tenants.values())
    for stage, seconds in site.stages.items():
        _observe(metrics.histogram(names.STAGE_SECONDS).labels(stage=stage, model=MODEL), {seconds: requests})
    first = ((metric, site.ttft_s) for metric in (names.TTFT_SECONDS, names.VISIBLE_TTFT_SECONDS))
    for metric, seen in (*first, (names.ITL_SECONDS, site.itl_s)):
        _observe(metrics.histogram(metric).labels(model=MODEL, tier=TIER), seen)
    for zone, seconds in site.zones.items():
        _observe(metrics.histogram(names.ZONE_TTFT_SECONDS).labels(zone=zone), {seconds: requests})
    _observe(metrics.histogram(names.LOOP_LAG_SECONDS), site.lag_s)
    for state, ratio in (("computing", site.loop_busy_ratio), ("starved", site.loop_starved_ratio)):
        metrics.counter(names.LOOP_SECONDS).labels(state=state).inc(ratio * SECONDS)
    metrics.counter(names.READER_PAUSED_SECONDS).inc(site.paused_s)
    _faults(metrics, site)
    return metrics.exposition().decode()


def _observe(histogram: Histogram, seen: Mapping[float, int]) -> None:
    observe_many(histogram, [value for value, count in seen.items() for _ in range(count)])


def _ended(metrics: Metrics, tenant: str, outcome: Outcome, count: int) -> None:
    metrics.counter(names.REQUESTS).labels(api=CHAT, model=MODEL, tenant=tenant, outcome=outcome).inc(count)
    for metric in (names.TIER_REQUESTS, names.TIER_STREAMS):
        for each in Outcome:
            metrics.counter(metric).labels(tier=TIER, outcome=each).inc(count if each is outcome else 0)


def _controller(site: Site) -> str:
    metrics = Metrics()
    there = [worker.version for worker in site.workers]
    wanted = {name: float(there.count(name)) for name in there} if site.wanted is None else site.wanted
    for name, number in wanted.items():
        metrics.gauge(names.WORKERS_WANTED).labels(version=name).set(number)
        metrics.gauge(names.WORKERS).labels(version=name, state=WorkerState.READY).set(0)
    for worker in site.workers:
        for state, part in worker.states.items():
            metrics.gauge(names.WORKERS).labels(version=worker.version, state=state).inc(part)
    for name, reason in product(wanted, WorkerEnd):
        metrics.counter(names.WORKER_ENDS).labels(name, reason)
    for reason, count in site.lost.items():
        metrics.counter(names.WORKER_ENDS).labels(there[0], reason).inc(count)
        metrics.gauge(names.WORKER_LOST).labels(there[0], f"{there[0]}-lost", reason).set(1.0)
    return metrics.exposition().decode()


def _faults(metrics: Metrics, site: Site) -> None:
    nobody = site.failed.get(Outcome.NO_CAPACITY, 0) - site.overloaded
    refused = {
        NoCapacity.code: nobody,
        Overloaded.code: site.overloaded,
        StoreUnavailable.code: site.without_store,
    }
    if nobody or site.held:
        metrics.counter(names.NO_WORKER).labels(version=_called(site)).inc(nobody + site.held)
    if site.without_store:
        _ended(metrics, "a", Outcome.INTERNAL, site.without_store)
    metrics.gauge(names.SPOOL_FULL).set(site.spool_full_ratio)
    for code in codes():
        metrics.counter(names.REFUSALS).labels(code=code).inc(refused.get(code, 0))
    for outcome, count in site.failed.items():
        _ended(metrics, "a", outcome, count)
    for level, share in site.open_circuits.items():
        metrics.gauge(names.BREAKERS_OPEN).labels(level=level).set(share)
    if site.ejections:
        metrics.counter(names.EJECTIONS).labels(version=site.workers[0].version).inc(site.ejections)
    if site.shares_limits:
        metrics.gauge(names.LIMITS_REACH).labels(state="shared").set(1.0 - site.limits_away_ratio)


def _called(site: Site) -> str:
    return site.called or next(iter(site.wanted or ()), "") or site.workers[0].version


def _tenant(metrics: Metrics, name: str, tenant: Tenant) -> None:
    for metric, tokens in (
        (names.PROMPT_TOKENS, tenant.prompt),
        (names.CACHED_TOKENS, tenant.cached),
        (names.OUTPUT_TOKENS, tenant.output),
    ):
        metrics.counter(metric).labels(model=MODEL, tenant=name).inc(tokens * tenant.requests)
    for outcome, count in ((Outcome.OK, tenant.requests), (Outcome.OVER_LIMIT, tenant.over_limit)):
        _ended(metrics, name, outcome, count)
    _observe(metrics.histogram(names.TENANT_QUEUE_SECONDS).labels(tenant=name), {tenant.wait_s: tenant.requests})


def _worker(worker: Worker, number: int, *, is_before: bool = False) -> str:
    metrics = Metrics()
    version = worker.version
    metrics.gauge(names.WORKER_INFO).labels(version=version, worker=f"w{number}", zone=worker.zone).set(1)
    for state, part in worker.states.items():
        metrics.gauge(names.WORKER_STATE).labels(version=version, state=state).set(part)
    metrics.gauge(names.ENGINE_SLOTS).labels(version=version).set(worker.slots)
    metrics.gauge(names.DOOR_WAITING).labels(version=version).set(worker.waiting)
    metrics.gauge(names.DOOR_SATURATION).labels(version=version).set(worker.saturation)
    restarts = metrics.counter(names.ENGINE_RESTARTS).labels(version=version, reason="crash")
    phases = metrics.histogram(names.PHASE_SECONDS).labels(version=version, phase="loading")
    if not is_before:
        restarts.inc(worker.restarts)
        _observe(phases, {6.0: worker.starts})
        for stage, seconds in ((Stage.QUEUE, worker.queue_s), (Stage.PREFILL, worker.prefill_s), (Stage.DECODE, 2.0)):
            _observe(
                metrics.histogram(names.GATE_SECONDS).labels(version=version, stage=stage), {seconds: worker.requests}
            )
    return metrics.exposition().decode() + translate.exposition(
        _engine(worker, is_before=is_before), VersionId(version)
    )


def _engine(worker: Worker, *, is_before: bool) -> translate.EngineNumbers:
    steps = 0 if is_before else 2000
    told = {
        "num_requests_running": worker.running,
        "num_requests_waiting": 0,
        "kv_cache_usage_perc": worker.kv_used_ratio,
        "num_preemptions_total": 0 if is_before else worker.preemptions,
        "iteration_tokens_total_count": steps,
        "iteration_tokens_total_sum": steps * worker.running,
    }
    return translate.parse("".join(f'vllm:{name}{{engine="0"}} {value}\n' for name, value in told.items()))
