"""Computes a snapshot's figures from a recording.

A counter without events has no series. So a missing series means 0 only if its process answered; otherwise it is
unknown.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from penstock.diagnosis import distribution, fleet
from penstock.diagnosis.distribution import total
from penstock.diagnosis.recording import Recording
from penstock.diagnosis.snapshot import (
    FEW,
    FaultFigures,
    GatewayFigures,
    KeptPromise,
    LostWorker,
    Snapshot,
    StageTime,
    TenantFigures,
    TokenFigures,
    ZoneFigures,
)
from penstock.domain.errors import NoCapacity, Overloaded, PenstockError, StoreUnavailable
from penstock.domain.fleet.worker import WorkerEnd
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.slo import Objective, SloTier
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT
from penstock.slo.indicators import Selection, measure
from penstock.telemetry import names
from penstock.telemetry.definitions import Label, Metric
from penstock.telemetry.series import INSTANCE, Sample

P95 = 0.95
_LOOP_STATES = ("computing", "starved")
LOST = frozenset(end.value for end in WorkerEnd if end.is_loss)
"""Reasons of a worker's end without an order."""


def snapshot_of(recording: Recording, tiers: Iterable[SloTier]) -> Snapshot:
    requests = _events(recording, names.REQUESTS)
    return Snapshot(
        seconds=recording.seconds,
        requests=requests,
        stages=_stages(recording),
        objectives=tuple(one for tier in tiers for one in _promises(recording, tier)),
        gateway=_gateway(recording),
        engines=fleet.engines(recording),
        tokens=_tokens(recording),
        tenants=_tenants(recording),
        workers=fleet.workers(recording),
        versions=fleet.versions(recording),
        zones=_zones(recording),
        faults=_faults(recording, requests),
        paused_s=total(recording.of(names.READER_PAUSED_SECONDS)),
        shares_limits=True if recording.of(names.LIMITS_REACH) else None,
    )


def by(label: str, samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.labels.get(label, ""), []).append(sample)
    return found


def has(label: Label | str, value: str) -> Callable[[Sample], bool]:
    return lambda sample: sample.labels.get(label) == value


def _events(recording: Recording, metric: Metric, where: distribution.Where = distribution.anywhere) -> float | None:
    found = total(filter(where, recording.of(metric)))
    if found is None and not recording.of(metric):
        return 0.0 if recording.of(names.LOOP_LAG_SECONDS, "_count") else None
    return 0.0 if found is None and not any(map(where, recording.of(metric))) else found


_SHARED = has(Label.STATE, "shared")


def _stages(recording: Recording) -> tuple[StageTime, ...]:
    found = {stage: distribution.of(recording, names.STAGE_SECONDS, has(Label.STAGE, stage.value)) for stage in Stage}
    spent = sum(one.sum for one in found.values() if one is not None)
    return tuple(
        StageTime(stage=stage, mean_s=one.mean or 0.0, p95_s=one.quantile(P95), share=one.sum / spent)
        for stage, one in found.items()
        if one is not None and one.count > 0 and spent > 0
    )


def _gateway(recording: Recording) -> GatewayFigures:
    spent = by(INSTANCE, recording.of(names.LOOP_SECONDS))
    wanted = {name: seconds for name, found in spent.items() if (seconds := total(found)) is not None}
    name = max(wanted, key=lambda one: wanted[one], default="")
    lag = distribution.of(recording, names.LOOP_LAG_SECONDS, has(INSTANCE, name) if name else distribution.anywhere)
    computed, starved = (total(filter(has(Label.STATE, state), spent.get(name, ()))) for state in _LOOP_STATES)
    return GatewayFigures(
        name=name,
        loop_busy_ratio=None if computed is None else _of_time(computed, recording),
        loop_starved_ratio=None if starved is None else _of_time(starved, recording),
        loop_wants_ratio=_of_time(wanted[name], recording) if name else None,
        loop_lag_p95_s=lag.quantile(P95) if lag else None,
    )


def _of_time(seconds: float, recording: Recording) -> float:
    return min(1.0, seconds / recording.seconds)


def _tokens(recording: Recording) -> TokenFigures:
    counted = (names.PROMPT_TOKENS, names.CACHED_TOKENS, names.OUTPUT_TOKENS)
    prompt, cached, output = (total(recording.of(one)) for one in counted)
    part = None
    if prompt is not None and cached is not None and output is not None and prompt + output > cached:
        part = (prompt - cached) / (prompt - cached + output)
    decode = distribution.of(recording, names.STAGE_SECONDS, has(Label.STAGE, Stage.DECODE.value))
    return TokenFigures(prompt_part=part, decode_s=decode.sum if decode else None)


def _tenants(recording: Recording) -> tuple[TenantFigures, ...]:
    served = _service(recording)
    everything = sum(served.values())
    refused = {name: total(found) for name, found in by(Label.TENANT, _over_limit(recording)).items()}
    return tuple(
        TenantFigures(
            name=name,
            share=service / everything if everything > 0 else None,
            queue_mean_s=_mean(distribution.of(recording, names.TENANT_QUEUE_SECONDS, has(Label.TENANT, name))),
            over_limit=refused.get(name) or 0.0,
            waiting=_waiting(recording, name),
        )
        for name, service in sorted(served.items(), key=lambda one: -one[1])
    )


def _waiting(recording: Recording, tenant: str) -> float | None:
    """Seconds that a tenant's requests waited, per second (Little's law)."""
    found = distribution.of(recording, names.TENANT_QUEUE_SECONDS, has(Label.TENANT, tenant))
    return found.sum / recording.seconds if found is not None and recording.seconds else None


def _over_limit(recording: Recording) -> list[Sample]:
    return list(filter(has(Label.OUTCOME, Outcome.OVER_LIMIT.value), recording.of(names.REQUESTS)))


def _service(recording: Recording) -> Mapping[str, float]:
    served: dict[str, float] = {}
    for metric, weight in ((names.PROMPT_TOKENS, PROMPT_WEIGHT), (names.OUTPUT_TOKENS, OUTPUT_WEIGHT)):
        for name, found in by(Label.TENANT, recording.of(metric)).items():
            served[name] = served.get(name, 0.0) + weight * (total(found) or 0.0)
    return {name: service for name, service in served.items() if service > 0}


def _zones(recording: Recording) -> tuple[ZoneFigures, ...]:
    named = by(Label.ZONE, recording.of(names.ZONE_TTFT_SECONDS, "_count"))
    found = {name: distribution.of(recording, names.ZONE_TTFT_SECONDS, has(Label.ZONE, name)) for name in named}
    return tuple(
        ZoneFigures(name=name, streams=one.count, ttft_mean_s=one.mean)
        for name, one in found.items()
        if one is not None
    )


def _faults(recording: Recording, requests: float | None) -> FaultFigures:
    def share(*outcomes: Outcome) -> float | None:
        ended = _events(recording, names.REQUESTS, lambda one: one.labels.get(Label.OUTCOME) in outcomes)
        return ended / requests if ended is not None and requests else None

    def refused(error: type[PenstockError]) -> float | None:
        count = total(filter(has(Label.CODE, error.code), recording.of(names.REFUSALS)))
        return min(1.0, count / requests) if count is not None and requests else None

    def without_worker() -> float | None:
        found = total(recording.of(names.NO_WORKER))
        return min(1.0, found / requests) if found and requests else refused(NoCapacity)

    def opened(level: str) -> float | None:
        if not any(map(has(Label.LEVEL, level), recording.of(names.BREAKERS_OPEN))):
            return 0.0 if requests is not None else None
        return total(filter(has(Label.LEVEL, level), recording.of(names.BREAKERS_OPEN)))

    ejected = by(Label.VERSION, recording.of(names.EJECTIONS))
    return FaultFigures(
        no_worker_ratio=without_worker(),
        overloaded_ratio=refused(Overloaded),
        engine_fault_ratio=share(Outcome.ENGINE_ERROR, Outcome.BROKEN_STREAM),
        slow_readers=_events(recording, names.REQUESTS, has(Label.OUTCOME, Outcome.SLOW_READER.value)),
        zones_open=opened("zone"),
        versions_open=opened("version"),
        ejections=None
        if requests is None
        else tuple((version, total(found) or 0.0) for version, found in ejected.items()),
        lost_workers=total(_losses(recording)),
        lost=_lost(recording),
        unserved=_unserved(recording, refused(NoCapacity)),
        store_refused_ratio=refused(StoreUnavailable),
        limits_away_ratio=max((1.0 - one for one in _levels(recording, names.LIMITS_REACH, _SHARED)), default=None),
        spool_full_ratio=max(_levels(recording, names.SPOOL_FULL), default=None),
    )


def _levels(recording: Recording, metric: Metric, where: distribution.Where = distribution.anywhere) -> list[float]:
    return [one.value for one in filter(where, recording.of(metric)) if one.value is not None]


def _unserved(recording: Recording, refused_ratio: float | None) -> Mapping[str, float] | None:
    """Unserved requests by version; None if there were some and no version is known."""
    found = {one.labels.get(Label.VERSION, ""): one.value for one in recording.of(names.NO_WORKER)}
    if not found and refused_ratio != 0.0:
        return None
    return None if None in found.values() else {version: value or 0.0 for version, value in found.items() if value}


def _losses(recording: Recording) -> list[Sample]:
    return [one for one in recording.of(names.WORKER_ENDS) if one.labels.get(Label.REASON) in LOST]


def _lost(recording: Recording) -> tuple[LostWorker, ...]:
    """Losses by version and reason in the window, named if the recording names one."""

    def which(one: Sample) -> tuple[str, str]:
        return one.labels[Label.VERSION], one.labels[Label.REASON]

    named = {which(one): one.labels[Label.WORKER] for one in recording.of(names.WORKER_LOST)}
    return tuple(
        LostWorker(version=version, reason=reason, worker=named.get((version, reason), ""))
        for version, reason in sorted({which(one) for one in _losses(recording) if one.value})
    )


def _mean(found: distribution.Distribution | None) -> float | None:
    return found.mean if found else None


def _promises(recording: Recording, tier: SloTier) -> tuple[KeptPromise, ...]:
    return tuple(_kept(recording, tier, objective) for objective in tier.objectives)


def _kept(recording: Recording, tier: SloTier, objective: Objective) -> KeptPromise:
    counted = measure(tier.tier.value, objective)
    count = partial(_selected, recording)
    events = count(counted.events)
    bad = counted.bad_count(count, events)
    return KeptPromise(
        tier=tier.tier.value,
        indicator=objective.indicator,
        promised_ratio=objective.good_ratio,
        within_s=objective.within_s,
        good_ratio=None if events is None or bad is None or events < FEW else _share(events - bad, events),
        events=events or 0.0,
    )


def _share(part: float, whole: float) -> float:
    """Counters of one page are read at slightly different times."""
    return min(1.0, max(0.0, part / whole))


def _selected(recording: Recording, selection: Selection) -> float | None:
    found = recording.increases.get(selection.series, ())
    return total(one for one in found if selection.takes(selection.series, one.labels))
