"""The rule of scaling: the workers that a version's demand needs, and guards that can only raise the number. Pure.

need = max(asked work x growth / target load, asked work + backlog / drain budget). Only standings that buy capacity
count as asked work. Requests that wait although slots are free are no backlog: a limit holds them, and one more GPU
would idle.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.domain.fleet.demand import Rate, VersionDemand
from penstock.domain.fleet.scaling import Signal
from penstock.domain.fleet.versions import Seen
from penstock.domain.serving.slo import Indicator, SloTier
from penstock.domain.tenancy.standing import Standing
from penstock.scaling import constants as c
from penstock.scaling.reports import BUYS
from penstock.scaling.work import Curve, Shape, Speed, shape_of, speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    ready: int
    fill_ratio: float
    """Running requests over the batch that the objectives allow."""
    kv_used_ratio: float
    backlog: int
    """Waiting requests that no free slot would take."""
    ttft_p90_s: float
    """Predicted for the next request: the wait of what is there, and its own prompt."""
    itl_p90_s: float

    @property
    def is_full(self) -> bool:
        return max(self.fill_ratio, self.kv_used_ratio) >= c.FULL_RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A version's mean request, a worker's speed for it, and ``work`` in worker-seconds a second."""

    shape: Shape
    speed: Speed
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """``workers`` with fractions; ``guard`` is a whole number to have at least, 0 if no guard adds. If no signal gives
    a number, ``is_known`` is False and ``workers`` the present number.
    """

    workers: float
    reason: str
    guard: int = 0
    signals: tuple[Signal, ...] = ()
    is_known: bool = True

    @property
    def wish(self) -> int:
        return max(math.ceil(self.workers - 1e-9), self.guard)


def buying(rates: Mapping[Standing, Rate]) -> Rate:
    total = Rate()
    for standing, rate in rates.items():
        if standing in BUYS:
            total = total.plus(rate)
    return total


def load_of(curve: Curve, demand: VersionDemand, tier: SloTier, last: Shape | None) -> Load:
    """Return the load. Without arrivals the last known mean request stands for those that are held or wait."""
    rate = buying(demand.rates)
    shape = shape_of(rate, demand.uncached_ratio) if rate.requests > 0.0 else last or _held_shape(demand)
    at = speed(curve, shape, tier.within_s(Indicator.ITL))
    return Load(shape=shape, speed=at, work=rate.requests * at.request_s)


def engines_of(ready: Sequence[Seen], load: Load, curve: Curve) -> Engines:
    batch, count = load.speed.batch, max(1, len(ready))
    running, waits, kv_used, backlog = [], [], 0.0, 0
    for one in ready:
        engine = one.report.load
        running.append(engine.running)
        waits.append(engine.wait_s)
        kv_used += engine.kv_used_ratio
        backlog += max(0, engine.waiting - max(0, batch - engine.running))
    busy, shape = _p90(running), load.shape
    brought = round(busy * shape.prompt / shape.output) if shape.output >= 1.0 else 0
    step_s = curve.steps.seconds(decoding=round(busy), prompt=brought, context=round(busy * shape.context))
    return Engines(
        ready=len(ready),
        fill_ratio=sum(running) / (count * batch),
        kv_used_ratio=kv_used / count,
        backlog=backlog,
        ttft_p90_s=_p90(waits) + load.speed.prefill_s if ready else 0.0,
        itl_p90_s=step_s if busy else 0.0,
    )


def unmeasured(demand: VersionDemand, ready: Sequence[Seen]) -> tuple[Signal, ...]:
    engines = [one.report.load for one in ready]
    kv_used = sum(one.kv_used_ratio for one in engines) / max(1, len(engines))
    return (
        Signal(name="arriving", value=buying(demand.rates).requests, unit="requests/s"),
        Signal(name="held", value=demand.held_requests, unit="requests"),
        Signal(name="waiting", value=sum(one.waiting for one in engines), unit="requests"),
        Signal(name="running", value=sum(one.running for one in engines), unit="requests"),
        Signal(name="kv_used", value=kv_used, unit="ratio"),
    )


def need(
    load: Load, engines: Engines, demand: VersionDemand, tier: SloTier, growth: float, *, is_settled: bool
) -> Need:
    """``is_settled``: recent late answers are of the present workers."""
    ttft_s = tier.within_s(Indicator.TTFT) or tier.within_s(Indicator.LATENCY)
    drain_s = max(c.DRAIN_LEAST_S, ttft_s - load.speed.prefill_s)
    waiting = engines.backlog + demand.held_requests
    arriving = load.work / c.TARGET_LOAD
    growing = arriving * growth
    draining = load.work + waiting * load.speed.request_s / drain_s if waiting else 0.0
    guards = dict(_guards(engines, demand, tier, is_settled=is_settled))
    said = (
        Signal(name="asked_work", value=load.work, unit="worker-seconds/s"),
        Signal(name="growth", value=growth, unit="times"),
        Signal(name="backlog", value=waiting, unit="requests"),
        Signal(name="batch_fill", value=engines.fill_ratio, unit="ratio"),
        Signal(name="kv_used", value=engines.kv_used_ratio, unit="ratio"),
        Signal(name="predicted_ttft_p90", value=engines.ttft_p90_s, unit="s"),
        Signal(name="predicted_itl_p90", value=engines.itl_p90_s, unit="s"),
    )
    workers = max(growing, draining, float(demand.held_requests > 0))
    reason = "backlog" if draining >= growing and waiting else "growth" if growth > 1.0 else "asked_work"
    guard = engines.ready + max(1, math.ceil(engines.ready * c.GUARD_STEP)) if guards and engines.is_full else 0
    if guard > math.ceil(workers):
        reason = max(guards, key=lambda name: guards[name])
    elif guards and not engines.is_full:
        reason = f"{reason}; {' and '.join(sorted(guards))} beside idle workers: no capacity is missing"
    return Need(workers=workers, reason=reason, guard=guard, signals=said)


def batch_slots(load: Load, ready: int, growth: float) -> int:
    used = load.work * growth / (c.TARGET_LOAD * ready) if ready else 1.0
    return max(0, math.floor(load.speed.batch * (1.0 - used)))


def _guards(engines: Engines, demand: VersionDemand, tier: SloTier, *, is_settled: bool) -> Iterator[tuple[str, float]]:
    ttft_s, itl_s = tier.within_s(Indicator.TTFT), tier.within_s(Indicator.ITL)
    if ttft_s and engines.ttft_p90_s > c.PREDICTED_MOST * ttft_s:
        yield "predicted_ttft", engines.ttft_p90_s / ttft_s
    if itl_s and engines.itl_p90_s > c.PREDICTED_MOST * itl_s:
        yield "predicted_itl", engines.itl_p90_s / itl_s
    if engines.kv_used_ratio > c.KV_MOST:
        yield "kv_used", engines.kv_used_ratio / c.KV_MOST
    burn = _burn(demand, tier)
    if is_settled and burn > c.BURN_MOST:
        yield "late_answers", burn / c.BURN_MOST


def _burn(demand: VersionDemand, tier: SloTier) -> float:
    """0 if there are too few answers to tell. More than 5 % late first tokens mean a TTFT p95 beyond the objective; a
    missed deadline counts as late.
    """
    judged = (
        tier.objective(Indicator.TTFT) or tier.objective(Indicator.LATENCY) or tier.objective(Indicator.AVAILABILITY)
    )
    if judged is None or demand.answered < c.JUDGED_LEAST:
        return 0.0
    return demand.late / demand.answered / judged.error_budget_ratio


def _held_shape(demand: VersionDemand) -> Shape:
    tokens = demand.held_tokens / demand.held_requests if demand.held_requests else 0.0
    return Shape(prompt=tokens / 2, output=tokens / 2, context=tokens)


def _p90(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.9 * len(values)) - 1] if values else 0.0
