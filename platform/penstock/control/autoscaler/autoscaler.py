"""The autoscaler's stage of the loop: bounds, curves and demand in; targets, cordoned workers and records out.

Only it changes a scaled version's number of workers, from zero on. A new state counts only once its tick's table is
published (``keep``): decisions of a failed tick are made again, and no worker ends that the table still offers.

Trade-off: the state is in memory. A new leader uncordons the workers, and removes none for a window.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.capacity.memory import sizes
from penstock.control.autoscaler.bounds import Bounds, of
from penstock.control.autoscaler.constants import RATE_S
from penstock.control.autoscaler.gateways import GatewayBounds, gateways
from penstock.control.autoscaler.pace import Pace
from penstock.control.autoscaler.room import Machine, room_of
from penstock.control.autoscaler.stage import FleetScene, Scaled, State, scale
from penstock.control.autoscaler.work import Curve
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.demand import Demand
from penstock.domain.fleet.scaling import Act, ScaleRecord, Target
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetView, Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import VersionId
from penstock.domain.models import curves
from penstock.domain.models.model import ModelVersion, Tier
from penstock.domain.serving.slo import SloTier

CURVES_S = 30.0
"""Seconds for which stored curves are kept: a measurement counts within them, and a tick reads nothing."""
RECORDS = 1_000
"""Changes of a number that are kept."""


class CurveStore(Protocol):
    async def curves(self, version: VersionId) -> tuple[curves.Curve, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSettings:
    """Settings of the autoscaler: it scales the versions that a pattern of ``bounds`` matches, without bounds none."""

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
        """Return the deployments with this tick's numbers of workers, cordoned and sleeping ones not counted."""
        numbers = {one.version: one.after for one in self.records}
        return tuple(replace(one, replicas=numbers.get(one.version, one.replicas)) for one in deployments)

    @property
    def why(self) -> tuple[Decision, ...]:
        return tuple(_decision(one) for one in self.records if one.act is not Act.HOLD)


class Autoscaler:
    def __init__(self, settings: ScaleSettings, store: CurveStore) -> None:
        self._settings, self._store = settings, store
        self._state = State()
        self._curves: tuple[float, dict[VersionId, tuple[curves.Curve, ...]]] = (-math.inf, {})
        self.now: Mapping[VersionId, ScaleRecord] = {}
        """The last record of each version."""
        self.targets: Mapping[VersionId, Target] = {}
        self.history: deque[ScaleRecord] = deque(maxlen=RECORDS)
        """Records that changed a number, oldest first."""
        self._began = math.inf
        self.gateways: Pace | None = None

    @property
    def is_on(self) -> bool:
        return bool(self._settings.bounds)

    async def step(
        self, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView, demand: Demand, now: float
    ) -> Scaling:
        """Decide at Unix second ``now``. No number of workers changes if the host can't list its processes."""
        self._began = min(self._began, now)
        processes = self._gateways(demand, now)
        if not self._settings.bounds or not view.is_known:
            return Scaling(state=self._state, gateways=processes)
        if now - self._curves[0] >= CURVES_S:
            self._curves = (now, {})
        living = view.living(seen)
        scaled = await self._scaled(catalogue, living, view)
        asleep = {one.report.worker for one in living if not one.report.holds_memory}
        machine = self._settings.machine
        scene = FleetScene(
            scaled=scaled,
            seen=living,
            running=view.running,
            demand=demand,
            lease_s=self._settings.lease_s,
            since=view.since,
            room=room_of(machine, sizes(catalogue.versions), view.running, asleep) if machine else None,
        )
        done = scale(self._state, scene, now)
        targets = {one.version: one for one in done.targets}
        return Scaling(state=done.state, targets=targets, records=done.records, gateways=processes)

    def _gateways(self, demand: Demand, now: float) -> Pace | None:
        """Return the gateways' pace; None until all had time to report, since their number is unknown before."""
        bounds, pace = self._settings.gateways, self.gateways
        if bounds is None or (pace is None and not (demand.gateways and now - self._began >= RATE_S)):
            return None
        return gateways(pace or Pace.adopting(demand.gateways, now), demand, bounds, now)

    def keep(self, done: Scaling) -> None:
        self._state, self.targets, self.gateways = done.state, done.targets, done.gateways
        self.now = {one.version: one for one in done.records}
        self.history += [one for one in done.records if one.act is not Act.HOLD]

    def forget(self) -> None:
        self._state, self.now, self.targets = State(), {}, {}
        self._began, self.gateways = math.inf, None

    async def _scaled(self, catalogue: Catalogue, seen: Sequence[Seen], view: FleetView) -> tuple[Scaled, ...]:
        versions = {one.id: one for one in catalogue.versions}
        kept = catalogue.kept | view.moving
        found = []
        for one in catalogue.staffed:
            bounds = of(one.version, self._settings.bounds) if one.replicas else None
            if bounds is None or one.version not in versions:
                continue
            if one.version in kept:
                bounds = replace(bounds, least=max(1, bounds.least), most=max(1, bounds.most))
            if one.version in view.most:
                bounds = bounds.within(view.most[one.version])
            version = versions[one.version]
            reports = [other.report for other in seen if other.report.version == one.version]
            found.append(
                Scaled(
                    version=one.version,
                    bounds=bounds,
                    tier=self._settings.tiers[version.manifest.tier],
                    curve=curve_of(version, await self._stored(one.version), reports),
                    deployed=one.replicas,
                    is_renewing=_is_renewing(one, view),
                )
            )
        return tuple(found)

    async def _stored(self, version: VersionId) -> tuple[curves.Curve, ...]:
        known = self._curves[1]
        if version not in known:
            known[version] = await self._store.curves(version)
        return known[version]


def curve_of(version: ModelVersion, stored: Sequence[curves.Curve], reports: Sequence[WorkerReport]) -> Curve | None:
    """Return the curve of the hardware that most workers report, else the one with most points; None without any."""
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
        source=f"{curve.origin}, {curve.hardware}",
    )


def _is_renewing(deployment: Deployment, view: FleetView) -> bool:
    own = [one for one in view.running if one.version == deployment.version]
    return any(
        one.draining or one.started_at < deployment.renew_before or one.worker in deployment.renew for one in own
    )


def _decision(record: ScaleRecord) -> Decision:
    return Decision(
        what=record.act,
        target=record.version,
        signal=record.reason,
        value=f"{record.before} to {record.after} workers; wish {record.wish:.2f}",
        objective=record.cut or "the need, at the target load",
    )
