"""The autoscaler in the real loop, planner, table and orders, in virtual time: out, in by two phases, zero and back."""

from dataclasses import dataclass, field, replace

import pytest

from penstock.control.autoscaler.autoscaler import curve_of
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.demand import Counted, GatewayReport, HeldNow
from penstock.domain.fleet.scaling import Act
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.fleet.versions import Deployment
from penstock.domain.fleet.worker import PhaseTiming, WorkerOrder, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.curves import Curve, Origin
from penstock.domain.models.steps import StepModel
from penstock.domain.serving.report import Load
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.bounds import Bounds
from penstock.scaling.constants import IN_WINDOW_S
from penstock.scaling.stage import ASKED
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.samples import control_plane as things

VERSION = things.version()
V = VERSION.id
CURVE = Curve(
    model=StepModel(fixed_s=0.05, token_s=0.0),
    hardware="a core",
    measured_at=1.0,
    points=20,
    error_median=0.0,
    error_p90=0.0,
    disturbed=0.0,
    origin=Origin.BENCH,
)
"""32 sequences at 50 ms a step: a request of 100 tokens is 0.16 worker-seconds, so 8 a second ask for two workers."""
START_S = 5.0
OUTPUT = 100


@dataclass
class Fleet:
    """A platform whose workers start within ``START_S`` and report each second; ``running`` are streams of workers."""

    clock: ManualClock
    bounds: tuple[Bounds, ...]
    running: dict[WorkerId, int] = field(default_factory=dict)
    states: dict[WorkerId, WorkerState] = field(default_factory=dict)
    held: int = 0
    number: int = 0
    requests: float = 0.0

    def __post_init__(self) -> None:
        self.room = Room(self.clock, bounds=self.bounds)

    async def deploy(self, replicas: int = 1, *, curve: bool = True) -> None:
        await self.room.registry.add_version(VERSION, "sig", things.act())
        await self.room.registry.put_deployment(Deployment(version=V, replicas=replicas), things.act())
        if curve:
            await self.room.registry.put_curve(V, CURVE, things.act())

    async def run(self, seconds: float, per_s: float = 0.0, *, reports: bool = True) -> None:
        """Go on for some seconds, each with a report of every worker and gateway and a tick."""
        for _ in range(round(seconds)):
            self.beat()
            self.requests += per_s
            if reports:
                self.report()
            await self.room.loop.tick()
            self.clock.advance(1.0)

    def report(self) -> None:
        self.number += 1
        asked = round(self.requests)
        held = (HeldNow(version=V, requests=self.held, tokens=100 * self.held),) if self.held else ()
        counted = Counted(version=V, standing=Standing.PAID, requests=asked, output_tokens=OUTPUT * asked)
        told = GatewayReport(gateway="g", began=1.0, number=self.number, counted=(counted,), held=held)
        self.room.demand.take(told)

    def beat(self) -> None:
        for worker, one in self.room.host.running.items():
            before = self.states.get(worker, WorkerState.LOADING)
            order = self.room.orders.desired(worker, before)
            if self.clock.now() - one.started_at < START_S:
                state = WorkerState.LOADING
            elif one.draining:
                state = WorkerState.DRAINING
            elif order is WorkerOrder.SLEEP and not self.running.get(worker):
                state = WorkerState.SLEEPING
            else:
                state = WorkerState.READY
            self.states[worker] = state
            phases = (PhaseTiming(phase=WorkerState.WARMING, seconds=START_S),)
            report = things.report(worker, V, state, phases=phases)
            load = Load(running=self.running.get(worker, 0))
            self.room.heartbeats.take(replace(report, load=load, holds_memory=state is not WorkerState.SLEEPING))

    async def table(self) -> dict[WorkerId, WorkerState]:
        found = await self.room.tables.latest()
        return {worker.id: worker.state for version in found.versions for worker in version.workers}

    @property
    def workers(self) -> list[WorkerId]:
        return sorted(self.room.host.running)

    @property
    def acts(self) -> list[tuple[Act, int, int]]:
        return [(one.act, one.before, one.after) for one in self.room.scale_records.records]


def bounds(**changes: object) -> tuple[Bounds, ...]:
    return (replace(Bounds(versions="tiny@*", least=1, most=4), **changes),)  # type: ignore[arg-type]


async def ramped(clock: ManualClock) -> Fleet:
    """Return a fleet of two workers that demand for two has made."""
    fleet = Fleet(clock, bounds())
    await fleet.deploy()
    await fleet.run(20, per_s=1.0)
    assert len(fleet.workers) == 1
    await fleet.run(30, per_s=8.0)
    assert len(fleet.workers) == 2
    return fleet


async def test_without_bounds_the_number_is_the_deployments(clock: ManualClock) -> None:
    """The setting is off: demand changes nothing."""
    fleet = Fleet(clock, ())
    await fleet.deploy(replicas=1)
    await fleet.run(60, per_s=50.0)
    assert (len(fleet.workers), fleet.acts, fleet.room.scaler.is_on) == (1, [], False)


async def test_one_two_one(clock: ManualClock) -> None:
    """Out in one step; back only after the window, first out of the table and then, once idle, ended."""
    fleet = await ramped(clock)
    assert fleet.acts == [(Act.OUT, 1, 2)]
    assert list((await fleet.table()).values()) == [WorkerState.READY] * 2
    await fleet.run(IN_WINDOW_S - 30, per_s=1.0)
    assert len(fleet.workers) == 2
    await fleet.run(120, per_s=1.0)
    assert fleet.acts == [(Act.OUT, 1, 2), (Act.IN, 2, 1)]
    assert len(fleet.workers) == 1
    assert list((await fleet.table()).values()) == [WorkerState.READY]


async def test_a_worker_with_a_stream_is_never_ended(clock: ManualClock) -> None:
    """It leaves the table as draining, its stream goes on, and it ends soon after its last one."""
    fleet = await ramped(clock)
    for worker in fleet.workers:
        fleet.running[worker] = 1
    await fleet.run(IN_WINDOW_S + 300, per_s=1.0)
    assert len(fleet.workers) == 2
    (cordoned,) = fleet.room.scaler.targets[V].cordoned
    assert (await fleet.table())[cordoned] is WorkerState.DRAINING
    assert fleet.room.orders.desired(cordoned, WorkerState.READY) is WorkerOrder.SERVE
    fleet.running[cordoned] = 0
    await fleet.run(10, per_s=1.0)
    assert cordoned not in fleet.workers
    assert len(fleet.workers) == 1


async def test_demand_that_returns_takes_a_cordoned_worker_back(clock: ManualClock) -> None:
    """No other is started."""
    fleet = await ramped(clock)
    for worker in fleet.workers:
        fleet.running[worker] = 1
    await fleet.run(IN_WINDOW_S + 60, per_s=1.0)
    assert len(fleet.room.scaler.targets[V].cordoned) == 1
    started = fleet.room.host.started
    await fleet.run(15, per_s=8.0)
    assert fleet.acts[-1] == (Act.TAKE_BACK, 1, 2)
    assert list((await fleet.table()).values()) == [WorkerState.READY] * 2
    assert fleet.room.host.started == started


async def test_silent_gateways_hold_the_number(clock: ManualClock) -> None:
    """Silence is not zero: nothing scales in, for as long as it lasts."""
    fleet = await ramped(clock)
    await fleet.run(2 * IN_WINDOW_S, reports=False)
    assert len(fleet.workers) == 2


async def test_demand_for_a_version_that_is_gone_starts_nothing(clock: ManualClock) -> None:
    """A gateway with an older table reports arrivals, and holds requests, for a version that nobody deploys."""
    fleet = Fleet(clock, bounds(versions="*"))
    await fleet.deploy()
    gone = VersionId("gone@000000000000")
    for number in range(1, 30):
        asked = Counted(version=gone, standing=Standing.PAID, requests=100 * number, output_tokens=OUTPUT * number)
        held = (HeldNow(version=gone, requests=8, tokens=800),)
        fleet.room.demand.take(GatewayReport(gateway="g", began=1.0, number=number, counted=(asked,), held=held))
        await fleet.run(1, reports=False)
    assert (fleet.acts, list(fleet.room.scaler.now), len(fleet.workers)) == ([], [V], 1)


async def test_zero_and_back(clock: ManualClock) -> None:
    """Idle, its worker sleeps; held requests wake it, and no process is started for that."""
    fleet = Fleet(clock, bounds(least=0, idle_s=60.0, parked=1))
    await fleet.deploy()
    await fleet.run(20, per_s=1.0)
    await fleet.run(120)
    assert list((await fleet.table()).values()) == [WorkerState.SLEEPING]
    fleet.held = 8
    await fleet.run(3)
    assert list((await fleet.table()).values()) == [WorkerState.READY]
    assert (fleet.room.host.started, len(fleet.workers)) == (1, 1)


async def test_held_requests_need_no_curve(clock: ManualClock) -> None:
    """One worker wakes for them, and the record says why."""
    fleet = Fleet(clock, bounds(least=0, idle_s=60.0, parked=1))
    await fleet.deploy(curve=False)
    await fleet.run(90)
    assert list((await fleet.table()).values()) == [WorkerState.SLEEPING]
    fleet.held = 1
    await fleet.run(3)
    assert list((await fleet.table()).values()) == [WorkerState.READY]
    assert fleet.room.scale_records.records[-1].reason == ASKED


async def test_a_failed_publication_counts_no_cordon(clock: ManualClock) -> None:
    """While gateways do not know that a worker leaves, it does not end, however long that takes."""
    fleet = await ramped(clock)
    publish, failures = fleet.room.tables.publish, 0

    async def away(table: RoutingTable) -> None:
        nonlocal failures
        if any(worker.state is WorkerState.DRAINING for version in table.versions for worker in version.workers):
            failures += 1
            raise StoreUnavailable
        await publish(table)

    fleet.room.tables.publish = away  # type: ignore[method-assign]
    for _ in range(600):
        try:
            await fleet.run(1, per_s=1.0)
        except StoreUnavailable:
            clock.advance(1.0)
    assert failures > 30
    assert (len(fleet.workers), fleet.acts) == (2, [(Act.OUT, 1, 2)])
    fleet.room.tables.publish = publish  # type: ignore[method-assign]
    await fleet.run(10, per_s=1.0)
    assert len(fleet.workers) == 1


async def test_a_new_leader_takes_cordoned_workers_back_and_holds(clock: ManualClock) -> None:
    """It knows no needs yet: what runs stays for a window."""
    fleet = await ramped(clock)
    for worker in fleet.workers:
        fleet.running[worker] = 1
    await fleet.run(IN_WINDOW_S + 60, per_s=1.0)
    fleet.room.scaler.forget()
    await fleet.run(IN_WINDOW_S - 10, per_s=1.0)
    assert list((await fleet.table()).values()) == [WorkerState.READY] * 2


async def test_a_number_by_hand_binds_at_once(clock: ManualClock) -> None:
    """An operator's scale is a new number, not a bound."""
    fleet = Fleet(clock, bounds())
    await fleet.deploy()
    await fleet.run(20, per_s=1.0)
    await fleet.room.registry.put_deployment(Deployment(version=V, replicas=3), things.act())
    await fleet.run(10, per_s=1.0)
    assert len(fleet.workers) == 3
    await fleet.room.registry.put_deployment(Deployment(version=V, replicas=0), things.act())
    await fleet.run(10, per_s=1.0)
    assert fleet.workers == []


async def test_without_a_curve_the_number_holds(clock: ManualClock) -> None:
    """Demand can't be counted in workers, and the record says how to measure."""
    fleet = Fleet(clock, bounds())
    await fleet.deploy(curve=False)
    await fleet.run(60, per_s=50.0)
    assert len(fleet.workers) == 1
    assert "penstock bench engine" in fleet.room.scaler.now[V].reason


@pytest.mark.parametrize(
    ("reported", "points", "is_learned"), [(None, 20, False), ("other", 10, True), ("a core", 10, False)]
)
def test_the_curve_is_of_the_hardware_that_workers_report(
    reported: str | None, points: int, *, is_learned: bool
) -> None:
    """A worker that knows less than the measurement of its hardware teaches nothing."""
    steps = replace(CURVE.model, fixed_s=0.07)
    learned = replace(CURVE, model=steps, hardware=reported, points=points) if reported else None
    report = replace(things.report("w", V), curve=learned, kv_blocks=100)
    found = curve_of(VERSION, [CURVE], [report])
    assert found is not None
    assert (found.steps is steps, found.seqs_most) == (is_learned, VERSION.manifest.engine.max_num_seqs)
    assert found.kv_tokens == 100 * VERSION.manifest.engine.block_size
    assert curve_of(VERSION, [], [replace(report, curve=None)]) is None
