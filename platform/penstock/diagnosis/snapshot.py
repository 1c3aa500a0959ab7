"""The figures of a platform that the cases judge. Unknown figures are None, never 0."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from penstock.domain.outcome import Stage
from penstock.domain.serving.slo import Indicator

OTHER = "other"
"""The label of all tenants without one of their own."""
MANY = 2
FEW = 10
"""Events below which no share is computed: a single event would decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    stage: Stage
    mean_s: float
    p95_s: float | None
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPromise:
    """An objective, and the share of good events; None if there are too few."""

    tier: str
    indicator: Indicator
    promised_ratio: float
    within_s: float
    good_ratio: float | None
    events: float

    @property
    def is_missed(self) -> bool | None:
        return None if self.good_ratio is None else self.good_ratio < self.promised_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFigures:
    name: str = ""
    loop_busy_ratio: float | None = None
    loop_wants_ratio: float | None = None
    """Busy ratio including the time in which the loop was runnable without a core."""
    loop_starved_ratio: float | None = None
    """Part of the time in which the loop was runnable without a core."""
    loop_lag_p95_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigures:
    """One version's engines, on average; ``device_busy_ratio`` is measured on the GPUs."""

    version: str
    running: float | None = None
    slots: float | None = None
    waiting: float | None = None
    saturation: float | None = None
    kv_used_ratio: float | None = None
    preemptions: float | None = None
    queue_mean_s: float | None = None
    calls: float | None = None
    """Requests that left the queues."""
    step_tokens: float | None = None
    device_busy_ratio: float | None = None

    @property
    def slots_used_ratio(self) -> float | None:
        return self.running / self.slots if self.running is not None and self.slots else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFigures:
    prompt_part: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFigures:
    name: str
    share: float | None
    queue_mean_s: float | None
    over_limit: float
    waiting: float | None = None
    """The mean number of the tenant's waiting requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFigures:
    name: str
    version: str
    zone: str
    prefill_mean_s: float | None = None
    restarts: float | None = None
    starts: float | None = None
    failed_ratio: float | None = None
    """Part of the time in which the worker had failed."""
    ready_ratio: float | None = None
    starting: str = ""
    """The starting state in which the worker was longest; empty without one."""
    starting_s: float | None = None
    """Seconds in that state, if it was in it all the time."""

    @property
    def begun(self) -> float | None:
        if self.starting_s:
            return max(self.starts or 0.0, 1.0)
        return self.starts if self.starts or self.starting_s is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFigures:
    version: str
    wanted: float | None = None
    ready: float | None = None

    @property
    def model(self) -> str:
        return self.version.partition("@")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneFigures:
    """A zone's mean time to a stream's first token, as gateways measured it."""

    name: str
    streams: float
    ttft_mean_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWorker:
    """``reason``: a ``WorkerEnd``; ``worker`` is empty if only their count is known."""

    version: str
    reason: str
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFigures:
    no_worker_ratio: float | None = None
    overloaded_ratio: float | None = None
    engine_fault_ratio: float | None = None
    slow_readers: float | None = None
    zones_open: float | None = None
    versions_open: float | None = None
    ejections: tuple[tuple[str, float], ...] | None = None
    lost_workers: float | None = None
    """Workers that became silent or failed, and were replaced."""
    lost: tuple[LostWorker, ...] = ()
    """The last lost worker, by version and reason."""
    unserved: Mapping[str, float] | None = None
    """Requests refused for lack of a ready worker, by version."""
    store_refused_ratio: float | None = None
    """Part of requests refused because a store could not be used."""
    limits_away_ratio: float | None = None
    """Part of the time in which a gateway did not reach the limits store."""
    spool_full_ratio: float | None = None
    """Part of the time in which a gateway's disk refused writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    seconds: float
    requests: float | None = None
    stages: tuple[StageTime, ...] = ()
    objectives: tuple[KeptPromise, ...] = ()
    gateway: GatewayFigures = GatewayFigures()
    engines: tuple[EngineFigures, ...] = ()
    tokens: TokenFigures = TokenFigures()
    tenants: tuple[TenantFigures, ...] = ()
    workers: tuple[WorkerFigures, ...] = ()
    versions: tuple[VersionFigures, ...] = ()
    zones: tuple[ZoneFigures, ...] = ()
    faults: FaultFigures = FaultFigures()
    paused_s: float | None = None
    """Seconds that streams waited for their readers."""
    shares_limits: bool | None = None
    """True if limits are counted in a store shared by gateways; a gateway that counts them itself exports nothing."""

    @property
    def loudest(self) -> TenantFigures | None:
        """Return the tenant with more than half of all waiting requests; None if there is none."""
        waits = [one for one in self.tenants if one.waiting]
        most = max(waits, key=lambda one: one.waiting or 0.0, default=None)
        whole = sum(one.waiting or 0.0 for one in waits)
        if most is None or most.name == OTHER or len(self.tenants) < MANY or (most.waiting or 0.0) <= whole / 2:
            return None
        return most

    def is_called(self, version: str) -> bool | None:
        """True for refused, waiting or served requests; None if unknown."""
        if self.faults.unserved is None:
            return None
        engine = next((one for one in self.engines if one.version == version), EngineFigures(version=version))
        return bool(self.faults.unserved.get(version) or engine.calls or engine.waiting)

    def stage(self, stage: Stage) -> StageTime | None:
        return next((one for one in self.stages if one.stage is stage), None)

    def part(self, stage: Stage, among: Collection[Stage]) -> float | None:
        means = {one.stage: one.mean_s for one in self.stages if one.stage in among}
        whole = sum(means.values())
        return means[stage] / whole if stage in means and whole > 0 else None

    def missed(self, *indicators: Indicator) -> tuple[KeptPromise, ...]:
        return tuple(one for one in self.objectives if one.indicator in indicators and one.is_missed)

    def good_ratio(self, indicator: Indicator) -> float | None:
        known = [one.good_ratio for one in self.objectives if one.indicator is indicator and one.good_ratio is not None]
        return min(known, default=None)

    def sum_of(self, count: Callable[[WorkerFigures], float | None], version: str = "") -> float | None:
        """Sum over all workers, or a version's; None if unknown for one of them."""
        counts = [count(one) for one in self.workers if version in ("", one.version)]
        known = [one for one in counts if one is not None]
        return sum(known) if counts and len(known) == len(counts) else None
