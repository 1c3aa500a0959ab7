"""The autoscaler's stage of a tick: from state, demand and workers to state, targets and records. Pure.

If numbers are missing, the known ones may add workers, and none is removed.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.domain.fleet.demand import Demand, VersionDemand
from penstock.domain.fleet.scaling import Act, Idle, Override, ScaleRecord, Target
from penstock.domain.fleet.versions import Running, Seen
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.slo import SloTier
from penstock.scaling import constants as c
from penstock.scaling import law, scale_in
from penstock.scaling.bounds import Bounds
from penstock.scaling.growth import History
from penstock.scaling.pace import Pace
from penstock.scaling.room import MachineRoom
from penstock.scaling.supply import Supply, supplies
from penstock.scaling.work import Curve, Shape

NO_CURVE = "no curve: `penstock bench engine` measures this version's speed"
MISSING = "gateways are silent, and silence is not zero"
NO_BATCH = "one request alone is slower than the ITL objective, which more workers do not mend"
BY_HAND = "set by hand"
ASKED = "requests come, or are held for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A version that is scaled: its bounds, its objectives, its speed (None: not known)."""

    version: VersionId
    bounds: Bounds
    tier: SloTier
    curve: Curve | None
    deployed: int = 0
    gpus: int = 1
    """Of one worker."""
    is_renewing: bool = False
    """A worker is being replaced: one more may serve beside it."""
    override: Override | None = None
    """An operator's worker count, which is least and most of ``bounds``."""

    @property
    def upper_bound(self) -> str:
        if self.bounds.is_hosts:
            return f"the host has places for {self.bounds.most}"
        return str(self.override) if self.override else f"most {self.bounds.most}"

    def lower_bound(self, least: int, now: float) -> str:
        if self.override:
            return str(self.override)
        return f"floor {least}" if self.bounds.floor(now) else f"used within {self.bounds.idle_s:g} s"

    def cut(self, wish: int, least: int, now: float) -> str:
        if max(wish, self.bounds.least) > self.bounds.most:
            return self.upper_bound
        return self.lower_bound(least, now) if wish < least else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    pace: Pace
    at: float
    history: History = field(default_factory=History)
    starts: tuple[float, ...] = ()
    """The newest measured starts, in seconds."""
    shape: Shape | None = None
    used_at: float = -math.inf
    unbound: int = 0
    """Workers before a person's override: without a curve the number at its end."""

    @property
    def start_s(self) -> float:
        return max(self.starts, default=c.START_DEFAULT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    versions: Mapping[VersionId, Tracked] = field(default_factory=dict)

    @property
    def cordoned(self) -> frozenset[WorkerId]:
        return frozenset(worker for one in self.versions.values() for worker in one.pace.cordoned)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScene:
    scaled: Sequence[Scaled]
    seen: Sequence[Seen]
    running: Sequence[Running]
    demand: Demand
    lease_s: float
    since: float = -math.inf
    """When this controller began to listen, in Unix seconds: no worker is silent within a lease of it."""
    room: MachineRoom | None = None
    """None if no machine bounds the workers."""

    def heard_after(self, now: float) -> float:
        return now - self.lease_s if now - self.since >= self.lease_s else -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    state: State
    targets: tuple[Target, ...]
    records: tuple[ScaleRecord, ...]


def scale(state: State, scene: FleetScene, now: float) -> Step:
    """Decide at ``now`` (Unix seconds). The state of a version that is no longer scaled is dropped."""
    heard_after = scene.heard_after(now)
    found = supplies(scene.seen, scene.running, state.cordoned, heard_after)
    versions: dict[VersionId, Tracked] = {}
    targets, records = [], []
    room = scene.room
    for one in scene.scaled:
        supply = found.get(one.version) or Supply()
        tracked = _follow(state.versions.get(one.version), one, supply, now)
        demand = scene.demand.versions.get(one.version) or VersionDemand()
        fits = math.inf if room is None else supply.awake + room.more(one.version)
        look = _VersionScene(one, supply, demand, scene.demand, tracked, now, heard_after, fits)
        versions[one.version], target, record = _decide(look)
        if room is not None:
            room = room.less(one.version, max(0, record.after - supply.awake))
        targets.append(target)
        records.append(record)
    return Step(state=State(versions=versions), targets=tuple(targets), records=tuple(records))


def _follow(before: Tracked | None, scaled: Scaled, supply: Supply, now: float) -> Tracked:
    if before is None:
        counted = supply.counted(now, c.START_DEFAULT_S) or scaled.deployed
        pace = Pace.adopting(counted, now, scaled.deployed)
        starts = tuple(supply.starts_s(-math.inf))[-c.STARTS :]
        return Tracked(
            pace=pace, at=now, starts=starts, used_at=now, unbound=scaled.deployed if scaled.override else counted
        )
    still = {one.report.worker for one in supply.cordoned}
    cordoned = {worker: since for worker, since in before.pace.cordoned.items() if worker in still}
    starts = (*before.starts, *supply.starts_s(before.at))[-c.STARTS :]
    return replace(before, at=now, starts=starts, pace=replace(before.pace, cordoned=cordoned))


class _VersionScene(NamedTuple):
    scaled: Scaled
    supply: Supply
    demand: VersionDemand
    all: Demand
    tracked: Tracked
    now: float
    heard_after: float
    fits: float
    """Workers that the machine has room for, those awake among them."""

    @property
    def counted(self) -> int:
        return self.supply.counted(self.now, self.tracked.start_s)

    @property
    def is_used(self) -> bool:
        if self.demand.held_requests or any(rate.requests for rate in self.demand.rates.values()):
            return True
        if self.supply.coming or self.supply.unheard:  # an unproven worker is no sleeper to hold requests for
            return True
        return any(scale_in.work(one) for one in (*self.supply.ready, *self.supply.cordoned))


def _decide(look: _VersionScene) -> tuple[Tracked, Target, ScaleRecord]:
    tracked, need, slots = _needed(look)
    need = replace(need, is_known=need.is_known and (look.all.is_known or need.wish > look.tracked.pace.workers))
    least, is_idle = _least(look, tracked)
    before = tracked.pace
    pace, act, reason = _paced(look, before, need, least, is_idle=is_idle)
    kept = tracked.unbound if pace.deployed == before.deployed else pace.deployed
    is_bound = look.scaled.override or not look.all.is_known
    tracked = replace(tracked, pace=pace, unbound=kept if is_bound else pace.workers)
    target = _target(look, pace, slots)
    price = look.scaled.bounds.price_per_hour
    cut = look.scaled.cut(need.wish, least, look.now) if need.is_known else ""
    if max(need.wish, least) > max(look.fits, pace.workers):
        cut = f"the machine has room for {look.fits:g}"
    age_s = look.all.age_s
    return (
        tracked,
        target,
        ScaleRecord(
            version=look.scaled.version,
            at=look.now,
            act=act,
            before=before.workers,
            after=pace.workers,
            wish=max(need.workers, need.guard) if need.is_known else None,
            reason=reason,
            cut=cut,
            signals=tuple(replace(signal, age_s=age_s) for signal in need.signals),
            per_hour_before=None if price is None else price * (before.workers + len(before.cordoned)),
            per_hour_after=None if price is None else price * target.workers,
            override=look.scaled.override,
            idle_gpus=_idle(look, need, least),
        ),
    )


def _needed(look: _VersionScene) -> tuple[Tracked, law.Need, int | None]:
    """State, needed workers, and the slots that batch work may hold."""
    scaled, supply, tracked, now = look.scaled, look.supply, look.tracked, look.now
    if look.is_used:
        tracked = replace(tracked, used_at=now)
    if scaled.curve is None:
        said = law.unmeasured(look.demand, supply.ready)
        wakes = look.demand.held_requests or law.buying(look.demand.rates).requests
        if wakes and not tracked.pace.workers:
            return tracked, law.Need(workers=1.0, reason=ASKED, signals=said), None
        kept = float(tracked.unbound)
        return tracked, law.Need(workers=kept, reason=NO_CURVE, signals=said, is_known=False), None
    load = law.load_of(scaled.curve, look.demand, scaled.tier, tracked.shape)
    history = tracked.history
    if look.all.is_known:
        history = history.after(load.work, now, supply.lead_s(now, tracked.start_s))
    need = law.need(
        load,
        law.engines_of(supply.ready, load, scaled.curve),
        look.demand,
        scaled.tier,
        history.growth,
        is_settled=tracked.pace.is_settled(now),
    )
    if not load.speed.meets_itl:
        need = replace(need, reason=f"{need.reason}; {NO_BATCH}")
    slots = law.batch_slots(load, len(supply.ready), history.growth) if look.all.is_known else None
    return replace(tracked, history=history, shape=load.shape), need, slots


def _least(look: _VersionScene, tracked: Tracked) -> tuple[int, bool]:
    """The floor, and whether no request in its idle time sends the version to zero."""
    floor = look.scaled.bounds.floor(look.now)
    is_idle = floor == 0 and look.all.is_known and look.now - tracked.used_at >= look.scaled.bounds.idle_s
    return max(floor, 0 if is_idle or not tracked.pace.workers else 1), is_idle


def _paced(look: _VersionScene, pace: Pace, need: law.Need, least: int, *, is_idle: bool) -> tuple[Pace, Act, str]:
    now, most, serving = look.now, look.scaled.bounds.most, len(look.supply.ready)
    if look.scaled.deployed != pace.deployed:
        by_hand = max(least, min(most, look.scaled.deployed))
        pace = replace(pace, deployed=look.scaled.deployed)
        if by_hand < pace.workers:
            return _in(look, replace(pace, needs=()), pace.workers - by_hand, 0.0, BY_HAND)
        need, least = replace(need, workers=float(by_hand), reason=BY_HAND), by_hand
    known = look.all.is_known and look.scaled.curve is not None
    pace = pace.noting(max(need.workers, need.guard), serving, now) if known else pace.holding(serving, now)
    if need.wish < least and pace.workers <= least:
        need = replace(need, reason=look.scaled.lower_bound(least, now))
    number = min(most, max(need.wish, least), max(look.fits, pace.workers))
    if number > pace.workers:
        return _out(look, pace, int(number), need.reason)
    if is_idle and pace.workers:
        return _in(look, pace, pace.workers, 0.0, f"idle for {look.scaled.bounds.idle_s:g} s")
    if pace.workers > most:  # a bound, or a person's number, whatever is asked
        return _in(look, pace, pace.workers - most, 0.0, look.scaled.upper_bound)
    if not look.all.is_known:
        return pace, Act.HOLD, MISSING
    return _fewer(look, pace, need, least)


def _fewer(look: _VersionScene, pace: Pace, need: law.Need, least: int) -> tuple[Pace, Act, str]:
    now, ready = look.now, look.supply.ready
    surplus = 0 if look.scaled.is_renewing else len(ready) - pace.workers
    if surplus > 0:  # a start that was on its way when the number fell
        cordoned = pace.cordoned | dict.fromkeys(scale_in.chosen(ready, surplus, now, 0.0), now)
        return replace(pace, cordoned=cordoned), Act.IN, f"{surplus} more than the number"
    if look.scaled.curve is None and (ended := pace.workers - max(need.wish, least)) > 0:  # an override has ended
        return _in(look, pace, ended, 0.0, need.reason)
    count = pace.steps_in(now, least)
    if count:
        return _in(look, pace, count, look.tracked.start_s, need.reason)
    return pace, Act.HOLD, need.reason


def _out(look: _VersionScene, pace: Pace, number: int, reason: str) -> tuple[Pace, Act, str]:
    more = number - pace.workers
    back = scale_in.taken_back(look.supply.cordoned, more)
    cordoned = {worker: since for worker, since in pace.cordoned.items() if worker not in back}
    act = Act.TAKE_BACK if len(back) == more else Act.OUT
    return replace(pace, workers=number, cordoned=cordoned), act, reason


def _in(look: _VersionScene, pace: Pace, count: int, start_s: float, reason: str) -> tuple[Pace, Act, str]:
    """Cordon workers that serve. Those that still start go first: the smaller number drains them."""
    spare = min(count, max(0, pace.workers - len(look.supply.ready)))
    chosen = scale_in.chosen(look.supply.ready, count - spare, look.now, start_s)
    if not chosen and not spare:
        return pace, Act.HOLD, f"{reason}; every worker is younger than its residency"
    cordoned = pace.cordoned | dict.fromkeys(chosen, look.now)
    return (
        replace(pace, workers=pace.workers - len(chosen) - spare, in_at=look.now, cordoned=cordoned),
        Act.IN,
        reason,
    )


def _idle(look: _VersionScene, need: law.Need, least: int) -> dict[Idle, int]:
    """Count idle GPUs by reason: those beyond wish and floor first, then those of the floor."""
    ready, cordoned = look.supply.ready, look.supply.cordoned
    idle, wish = sum(not scale_in.work(one) for one in ready), need.wish if need.is_known else 0
    beyond = min(idle, max(0, len(ready) - max(wish, least))) if need.is_known else 0
    kept = min(idle - beyond, max(0, min(len(ready), least) - wish))
    floor = Idle.FLOOR if look.scaled.bounds.floor(look.now) else Idle.SLOW_IN
    found = Counter({Idle.SLOW_IN: beyond + sum(not scale_in.work(one) for one in cordoned)})
    found[Idle.OVERRIDE if look.scaled.override else floor] += kept
    found[Idle.HEADROOM if need.is_known else Idle.UNMEASURED] += idle - beyond - kept
    found[Idle.WARM_POOL] += len(look.supply.parked)
    return {reason: count * look.scaled.gpus for reason, count in found.items() if count}


def _target(look: _VersionScene, pace: Pace, slots: int | None) -> Target:
    supply, now = look.supply, look.now
    cordoned = [one for one in supply.cordoned if one.report.worker in pace.cordoned]
    idle = scale_in.drained(cordoned, pace.cordoned, look.heard_after)
    woken = tuple(one.report.worker for one in supply.parked[: max(0, pace.workers - look.counted)])
    asleep = min(len(supply.parked), look.scaled.bounds.parked) - len(woken)
    slept = idle[: max(0, look.scaled.bounds.parked - len(supply.parked))]
    staying = len(pace.cordoned) - (len(idle) - len(slept)) - supply.gone
    return Target(
        version=look.scaled.version,
        workers=pace.workers + max(0, asleep) + staying + supply.overdue(now, look.tracked.start_s),
        least=min(look.scaled.bounds.least, look.scaled.bounds.most),
        cordoned=frozenset(pace.cordoned),
        ended=idle[len(slept) :],
        slept=slept,
        woken=woken,
        batch_slots=slots,
    )
