"""The autoscaler's stage of the loop: bounds, curves and demand in; targets, cordoned workers and records out.

A new state counts only once its tick's table is published (``keep``): decisions of a failed tick are made again, and no
worker ends that the table still offers.

Trade-off: the state is in memory. A new leader uncordons the workers, and removes none for a window.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.capacity.memory import sizes
from penstock.domain.errors import Conflict, InvalidField, StoreUnavailable
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.demand import Demand
from penstock.domain.fleet.scaling import Act, Override, ScaleRecord, Target
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetView, Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import VersionId
from penstock.domain.models import curves
from penstock.domain.models.model import ModelVersion, Tier
from penstock.domain.serving.slo import SloTier
from penstock.scaling.bounds import Bounds, of
from penstock.scaling.constants import RATE_S
from penstock.scaling.gateways import GatewayBounds, gateways
from penstock.scaling.pace import Pace
from penstock.scaling.room import Machine, room_of
from penstock.scaling.stage import FleetScene, Scaled, State, scale
from penstock.scaling.work import Curve

CURVES_S = 30.0
"""Seconds for which stored curves are kept: a measurement counts within them, and a tick reads nothing."""
UNSAVED = 1_000
"""Records that wait for the store: a minute of its outage in which each of ten versions changes each second."""


class CurveStore(Protocol):
    async def curves(self, version: VersionId) -> tuple[curves.Curve, ...]: ...


class RecordStore(Protocol):
    async def note(self, records: Sequence[ScaleRecord]) -> None: ...

    async def newest(self, version: str, limit: int) -> tuple[ScaleRecord, ...]: ...


class Overrides(Protocol):
    async def end_override(self, version: VersionId, now: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleStores:
    curves: CurveStore
    records: RecordStore
    overrides: Overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSettings:
    tiers: Mapping[Tier, SloTier]
    bounds: tuple[Bounds, ...] = ()
    gateways: GatewayBounds | None = None
    """None if nothing brings about a number of gateways."""
    machine: Machine | None = None
    """The workers' machine; None if it does not bound them."""
    lease_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """A tick's decisions; they take effect with ``Autoscaler.keep``."""

    state: State = field(default_factory=State)
    targets: Mapping[VersionId, Target] = field(default_factory=dict)
    records: tuple[ScaleRecord, ...] = ()
    gateways: Pace | None = None
    """None while the gateways' number is not decided."""

    def applied(self, deployments: Iterable[Deployment]) -> tuple[Deployment, ...]:
        """Return this tick's numbers of workers, without cordoned and sleeping ones."""
        numbers = {one.version: one.after for one in self.records}
        return tuple(replace(one, replicas=numbers.get(one.version, one.replicas)) for one in deployments)

    @property
    def why(self) -> tuple[Decision, ...]:
        return tuple(_decision(one) for one in self.records if one.act is not Act.HOLD)


class Autoscaler:
    def __init__(self, settings: ScaleSettings, stores: ScaleStores) -> None:
        self._settings, self._stores = settings, stores
        self._state = State()
        self._curves: tuple[float, dict[VersionId, tuple[curves.Curve, ...]]] = (-math.inf, {})
        self.now: Mapping[VersionId, ScaleRecord] = {}
        """The last record of each version."""
        self.targets: Mapping[VersionId, Target] = {}
        self._unsaved: deque[ScaleRecord] = deque(maxlen=UNSAVED)
        self._places: Mapping[VersionId, int] = {}
        """The most workers of each version that the host could hold, as of the last tick."""
        self._began = math.inf
        self.gateways: Pace | None = None

    @property
    def is_on(self) -> bool:
        return bool(self._settings.bounds)

    async def step(
        self, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, demand: Demand, now: float
    ) -> Scaling:
        """No number changes if the host can't list its processes."""
        self._began = min(self._began, now)
        await self._end_overrides(catalogue, now)
        processes = self._gateways(demand, now)
        if not self._settings.bounds or not view.is_known:
            return Scaling(state=self._state, gateways=processes)
        if now - self._curves[0] >= CURVES_S:
            self._curves = (now, {})
        living = view.living(seen)
        scaled = await self._scaled(catalogue, living, view, now)
        asleep = {one.report.worker for one in living if not one.report.holds_memory}
        machine, bytes_of = self._settings.machine, sizes(catalogue.versions)
        whole = room_of(machine, bytes_of, (), ()) if machine else None
        self._places = {one.version: whole.more(one.version) for one in scaled} if whole else view.most
        scene = FleetScene(
            scaled=scaled,
            seen=living,
            running=view.running,
            demand=demand,
            lease_s=self._settings.lease_s,
            since=view.since,
            room=room_of(machine, bytes_of, view.running, asleep) if machine else None,
        )
        done = scale(self._state, scene, now)
        targets = {one.version: one for one in done.targets}
        return Scaling(state=done.state, targets=targets, records=done.records, gateways=processes)

    def _gateways(self, demand: Demand, now: float) -> Pace | None:
        """Return the number of gateways; None until all had time to report."""
        bounds, pace = self._settings.gateways, self.gateways
        if bounds is None or (pace is None and not (demand.gateways and now - self._began >= RATE_S)):
            return None
        return gateways(pace or Pace.adopting(demand.gateways, now), demand, bounds, now)

    async def keep(self, done: Scaling) -> None:
        self._unsaved += [new for one in done.records if (new := self._news(one)) is not None]
        self._state, self.targets, self.gateways = done.state, done.targets, done.gateways
        self.now = {one.version: one for one in done.records}
        if self._unsaved:
            with suppress(StoreUnavailable):
                await self._stores.records.note(tuple(self._unsaved))
                self._unsaved.clear()

    async def history(self, version: str, limit: int) -> tuple[ScaleRecord, ...]:
        return await self._stores.records.newest(version, limit)

    def check(self, version: VersionId, workers: int) -> None:
        """Raise for an operator's number that the version's bounds or its host forbid."""
        bounds = of(version, self._settings.bounds)
        if bounds is None:
            raise Conflict(f"the scale file does not name {version}; set its number: penstock models scale {version}")
        bounds.check(workers)
        places = self._places.get(version, workers)
        if workers > places:
            says = f"the machine or its pools hold {places} of them: enlarge them, or override with at most {places}"
            raise InvalidField(says, param="workers")

    def _news(self, record: ScaleRecord) -> ScaleRecord | None:
        last = self.now.get(record.version)
        before = last.override if last else None
        if before is not None and record.override != before:
            return replace(record, reason=f"{before} has ended; {record.reason}")
        return record if record.act is not Act.HOLD or record.override != before else None

    async def _end_overrides(self, catalogue: Catalogue, now: float) -> None:
        for one in catalogue.staffed:
            if one.override is not None and one.override.has_ended(now):
                await self._stores.overrides.end_override(one.version, now)

    def forget(self) -> None:
        self._state, self.now, self.targets = State(), {}, {}
        self._began, self.gateways = math.inf, None

    async def _scaled(
        self, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, now: float
    ) -> tuple[Scaled, ...]:
        versions = {one.id: one for one in catalogue.versions}
        kept = catalogue.kept | view.moving
        reports: dict[VersionId, list[WorkerReport]] = defaultdict(list)
        for worker in seen:
            reports[worker.report.version].append(worker.report)
        renewing = _renewing(catalogue, view)
        found = []
        for one in catalogue.staffed:
            bounds = of(one.version, self._settings.bounds) if one.replicas else None
            if bounds is None or one.version not in versions:
                continue
            version = versions[one.version]
            override = one.override if one.override and not one.override.has_ended(now) else None
            found.append(
                Scaled(
                    version=one.version,
                    bounds=_present(bounds, one.version, override, view, is_kept=one.version in kept),
                    tier=self._settings.tiers[version.manifest.tier],
                    curve=curve_of(version, await self._stored(one.version), reports[one.version]),
                    deployed=one.replicas,
                    gpus=version.manifest.engine.tensor_parallel_size,
                    is_renewing=one.version in renewing,
                    override=override,
                )
            )
        return tuple(found)

    async def _stored(self, version: VersionId) -> tuple[curves.Curve, ...]:
        known = self._curves[1]
        if version not in known:
            known[version] = await self._stores.curves.curves(version)
        return known[version]


def curve_of(version: ModelVersion, stored: Sequence[curves.Curve], reports: Sequence[WorkerReport]) -> Curve | None:
    """Return the curve of the hardware that most workers report, else the one with most points."""
    known = curves.best(stored, [one.curve for one in reports])
    if not known:
        return None
    used = Counter(one.curve.hardware for one in reports if one.curve is not None)
    curve = max(known, key=lambda one: (used[one.hardware], one.points))
    engine = version.manifest.engine
    blocks = [one.kv_blocks for one in reports if one.kv_blocks and one.state is WorkerState.READY]
    return Curve(
        steps=curve.model,
        seqs_most=max(1, engine.max_num_seqs),
        kv_tokens=min(blocks, default=0) * engine.block_size,
    )


def _present(
    bounds: Bounds, version: VersionId, override: Override | None, view: FleetView, *, is_kept: bool
) -> Bounds:
    if override:
        bounds = bounds.overridden(override.workers)
    if is_kept:
        bounds = replace(bounds, least=max(1, bounds.least), most=max(1, bounds.most))
    if bounds.price_per_hour is None:
        bounds = replace(bounds, price_per_hour=view.prices.get(version))
    return bounds.within(view.most[version]) if version in view.most else bounds


def _renewing(catalogue: Catalogue, view: FleetView) -> frozenset[VersionId]:
    deployed = {one.version: one for one in catalogue.staffed}
    found = set()
    for one in view.running:
        its = deployed.get(one.version)
        if its is not None and (one.draining or one.started_at < its.renew_before or one.worker in its.renew):
            found.add(one.version)
    return frozenset(found)


def _decision(record: ScaleRecord) -> Decision:
    wish = "unknown" if record.wish is None else f"{record.wish:.2f}"
    return Decision(
        what=record.act,
        target=record.version,
        signal=record.reason,
        value=f"{record.before} to {record.after} workers; wish {wish}",
        objective=record.cut or "the need, at the target load",
    )
