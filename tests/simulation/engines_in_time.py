"""A fleet of engines in virtual time: arrivals, starts and streams, driven by the real reports and the real law.

An engine decodes what it holds at the pace of its step model; a worker starts after a time that the scene gives. Other
policies of the same signature run beside the real one.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from penstock.domain.fleet.demand import Counted, GatewayReport, HeldNow
from penstock.domain.fleet.scaling import Act, ScaleRecord
from penstock.domain.fleet.versions import Running, Seen
from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import Tier
from penstock.domain.models.steps import StepModel
from penstock.domain.serving.report import Load
from penstock.domain.serving.slo import Indicator, Objective, SloTier
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.bounds import Bounds
from penstock.scaling.reports import Reports
from penstock.scaling.stage import FleetScene, Scaled, State, Step, scale
from penstock.scaling.work import Curve

VERSION = VersionId("m@000000000000")
STEP_S, TICK_S = 0.25, 1.0
QUEUE_TIMEOUT_S = 15.0
"""As the chat tier has it."""
H100_8B = Curve(
    steps=StepModel(fixed_s=6.5e-3, token_s=28e-6, context_s=65e-9, sequence_s=10e-6), seqs_most=256, kv_tokens=449_000
)
"""Llama-3.1-8B on an H100 by its data sheet."""
SMALL = Curve(
    steps=StepModel(fixed_s=0.015, token_s=0.3e-3, context_s=2e-6, sequence_s=0.5e-3, rides=False), seqs_most=16
)
"""A small model on a CPU: about 1.5 requests of 200 and 100 tokens a second, so that a replay takes a second."""
CHAT = SloTier(
    tier=Tier.CHAT,
    says="chat",
    window_days=28,
    deadline_s=120.0,
    objectives=(
        Objective(indicator=Indicator.TTFT, good_ratio=0.95, within_s=1.0),
        Objective(indicator=Indicator.ITL, good_ratio=0.95, within_s=0.05),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    at: float
    prompt: int = 200
    output: int = 100
    tenant: int = 0
    standing: Standing = Standing.PAID


@dataclass(slots=True, kw_only=True)
class Stream:
    request: Request
    left: float
    first_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Engine:
    worker: WorkerId
    zone: str
    started_at: float
    ready_at: float
    is_heard: bool = True
    is_draining: bool = False
    state: WorkerState = WorkerState.LOADING
    since: float = 0.0
    runs: list[Stream] = field(default_factory=list)
    waits: list[Stream] = field(default_factory=list)

    @property
    def held(self) -> int:
        return len(self.runs) + len(self.waits)


Decide = Callable[[State, FleetScene, float], Step]


@dataclass(kw_only=True)
class World:
    arrivals: Sequence[Request]
    bounds: Bounds
    start_s: Callable[[float], float | None] = lambda _: 60.0
    """Of a worker started at a time; None: it never reports."""
    curve: Curve = SMALL
    decide: Decide = scale
    deployed: int = 1
    zones: tuple[str, ...] = ("a",)
    is_silent: Callable[[float], bool] = lambda _: False
    """Whether the gateway's reports are lost at a time."""
    tenant_slots: int = 1 << 30
    """A rule of the door that keeps a tenant's further requests waiting."""

    def __post_init__(self) -> None:
        self.engines: dict[WorkerId, Engine] = {}
        self.held: list[Stream] = []
        self.ttft_s: list[float] = []
        self.broken = self.served = self.refused = 0
        self.worker_s = 0.0
        self.records: list[ScaleRecord] = []
        self.state, self.reports = State(), Reports()
        self._counts: dict[Standing, Counter[str]] = defaultdict(Counter)
        self._number = self._steps = 0
        self._names = 0
        self.to_come = sorted(self.arrivals, key=lambda one: one.at, reverse=True)
        self.sizes: list[int] = []
        for _ in range(self.deployed):
            self._start(-1e6, 0.0)

    def run(self, until: float) -> "World":
        """Run to second ``until``; a second call goes on."""
        for number in range(self._steps, round(until / STEP_S)):
            now = number * STEP_S
            self._steps = number + 1
            self._arrive(now)
            for engine in self.engines.values():
                self._serve(engine, now)
            if now % TICK_S == 0:
                self._tick(now)
            self.worker_s += STEP_S * len(self.engines)
        return self

    @property
    def acts(self) -> list[ScaleRecord]:
        return [one for one in self.records if one.act is not Act.HOLD]

    @property
    def ready(self) -> list[Engine]:
        return [one for one in self.engines.values() if one.state is WorkerState.READY and not one.is_draining]

    def in_slo(self, ttft_s: float = 1.0) -> float:
        return sum(one <= ttft_s for one in self.ttft_s) / max(1, len(self.ttft_s))

    def _start(self, now: float, takes_s: float | None) -> None:
        self._names += 1
        worker = WorkerId(f"w{self._names:05}")
        self.engines[worker] = Engine(
            worker=worker,
            zone=self.zones[self._names % len(self.zones)],
            started_at=now,
            ready_at=math.inf if takes_s is None else now + takes_s,
            is_heard=takes_s is not None,
        )

    def _arrive(self, now: float) -> None:
        while self.to_come and self.to_come[-1].at <= now:
            request = self.to_come.pop()
            self._counts[request.standing].update(
                requests=1, prompt_tokens=request.prompt, output_tokens=request.output
            )
            self.held.append(Stream(request=request, left=float(request.output)))
        open_to = [one for one in self.ready if one.worker not in self.state.cordoned]
        if open_to:
            for stream in self.held:
                min(open_to, key=lambda one: (one.held, one.worker)).waits.append(stream)
            self.held = []

    def _serve(self, engine: Engine, now: float) -> None:
        if engine.state is WorkerState.LOADING and now >= engine.ready_at:
            engine.state, engine.since = WorkerState.READY, now
        if engine.state is not WorkerState.READY:
            return
        self._give_up(engine, now)
        self._enter(engine, now)
        if not engine.runs:
            return
        count = len(engine.runs)
        context = sum(one.request.prompt + one.request.output - one.left for one in engine.runs)
        fresh = sum(one.request.prompt for one in engine.runs if one.first_at is None)
        step_s = self.curve.steps.seconds(decoding=count, context=round(context))
        decode_s = max(STEP_S * 0.1, STEP_S - fresh * self.curve.steps.token_s)
        for one in engine.runs:
            if one.first_at is None:
                one.first_at = now
                self._answered(now - one.request.at + one.request.prompt * self.curve.steps.token_s)
            one.left -= decode_s / step_s
        self.served += sum(one.left <= 0 for one in engine.runs)
        engine.runs = [one for one in engine.runs if one.left > 0]

    def _give_up(self, engine: Engine, now: float) -> None:
        """Refuse requests that have waited for the tier's time at the door; their callers got no answer in time."""
        late = [one for one in engine.waits if now - one.request.at > QUEUE_TIMEOUT_S]
        for _ in late:
            self._answered(math.inf)
        self.refused += len(late)
        engine.waits = engine.waits[len(late) :] if late else engine.waits

    def _enter(self, engine: Engine, now: float) -> None:
        tenants = Counter(one.request.tenant for one in engine.runs)
        prompt_room = STEP_S * 0.9 / self.curve.steps.token_s
        later: list[Stream] = []
        for stream in engine.waits:
            tenant, tokens = stream.request.tenant, sum(one.request.prompt + one.request.output for one in engine.runs)
            fits = len(engine.runs) < self.curve.seqs_most and tokens + stream.request.prompt < (
                self.curve.kv_tokens or math.inf
            )
            if fits and prompt_room > 0 and tenants[tenant] < self.tenant_slots:
                engine.runs.append(stream)
                tenants[tenant] += 1
                prompt_room -= stream.request.prompt
            else:
                later.append(stream)
        engine.waits = later

    def _answered(self, ttft_s: float) -> None:
        self.ttft_s.append(ttft_s)
        self._counts[Standing.PAID].update(answered=1, late=int(ttft_s > 1.0))

    def _tick(self, now: float) -> None:
        if not self.is_silent(now):
            self._number += 1
            self.reports.take(self._report(now), now)
        scene = FleetScene(
            scaled=(Scaled(version=VERSION, bounds=self.bounds, tier=CHAT, curve=self.curve, deployed=self.deployed),),
            seen=[self._seen(one, now) for one in self.engines.values() if one.is_heard],
            running=[
                Running(worker=one.worker, version=VERSION, started_at=one.started_at, draining=one.is_draining)
                for one in self.engines.values()
            ],
            demand=self.reports.demand(now),
            lease_s=5.0,
        )
        step = self.decide(self.state, scene, now)
        self.state = step.state
        self.records += step.records
        self._apply(step, now)
        self.sizes.append(len(self.engines))

    def _apply(self, step: Step, now: float) -> None:
        target = step.targets[0]
        for worker in target.ended:
            gone = self.engines.pop(worker)
            self.broken += gone.held
        for worker in target.slept:
            self.engines[worker].state = WorkerState.SLEEPING
        for worker in target.woken:
            engine = self.engines[worker]
            engine.state, engine.ready_at = WorkerState.LOADING, now + 3.0
        for _ in range(target.workers - len(self.engines)):
            self._start(now, self.start_s(now))
        surplus = [one for one in self.engines.values() if one.worker not in target.cordoned]
        for one in sorted(surplus, key=lambda one: (one.state is WorkerState.READY, one.held))[
            : max(0, len(self.engines) - target.workers)
        ]:
            del self.engines[one.worker]
            self.broken += one.held

    def _report(self, now: float) -> GatewayReport:
        held = tuple(
            [
                HeldNow(
                    version=VERSION,
                    requests=len(self.held),
                    tokens=sum(one.request.prompt + one.request.output for one in self.held),
                    oldest_s=now - self.held[0].request.at,
                )
            ]
            if self.held
            else []
        )
        counted = tuple(
            Counted(version=VERSION, standing=standing, **counts) for standing, counts in self._counts.items()
        )
        return GatewayReport(gateway="g", began=0.0, number=self._number, counted=counted, held=held)

    def _seen(self, engine: Engine, now: float) -> Seen:
        used = sum(one.request.prompt + one.request.output - one.left for one in engine.runs)
        waiting = sum(one.request.prompt for one in engine.waits)
        load = Load(
            running=len(engine.runs),
            waiting=len(engine.waits),
            queued_tokens=waiting,
            kv_used_ratio=min(1.0, used / self.curve.kv_tokens) if self.curve.kv_tokens else 0.0,
            wait_s=waiting * self.curve.steps.token_s,
        )
        took_s = engine.ready_at - engine.started_at
        phases = (PhaseTiming(phase=WorkerState.LOADING, seconds=took_s),) if math.isfinite(took_s) else ()
        report = WorkerReport(
            worker=engine.worker,
            version=VERSION,
            state=engine.state,
            url="",
            zone=engine.zone,
            load=load,
            phases=phases if engine.state is WorkerState.READY and 0 < took_s < 1e5 else (),
        )
        return Seen(report=report, at=now, since=engine.since)


def poisson(rates: Iterable[tuple[float, float]], chance: random.Random) -> list[Request]:
    """Return arrivals of a piecewise constant rate: seconds, requests a second."""
    found, began = [], 0.0
    for seconds, rate in rates:
        at = began
        while rate and (at := at + chance.expovariate(rate)) < began + seconds:
            found.append(Request(at=at))
        began += seconds
    return found


def bounds(**changes: object) -> Bounds:
    return replace(Bounds(versions="*", least=1, most=20), **changes)  # type: ignore[arg-type]
