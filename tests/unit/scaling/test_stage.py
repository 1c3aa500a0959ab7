"""One version over ticks: out at once, in slowly and in two phases, and what holds it."""

import math
from dataclasses import replace

import pytest

from penstock.domain.fleet.demand import Demand, Rate, VersionDemand
from penstock.domain.fleet.scaling import Act, ScaleRecord, Target
from penstock.domain.fleet.versions import Running, Seen
from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.steps import StepModel
from penstock.domain.serving.report import Load
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.bounds import Bounds
from penstock.scaling.room import MachineRoom
from penstock.scaling.stage import (
    BY_HAND,
    MISSING,
    NO_BATCH,
    NO_CURVE,
    FleetScene,
    Scaled,
    State,
    Step,
    scale,
)
from penstock.scaling.work import Curve
from tests.unit.scaling.test_law import TIER

V = VersionId("m@000000000000")
CURVE = Curve(
    steps=StepModel(fixed_s=0.05, token_s=0.0, context_s=0.0, sequence_s=0.0),
    seqs_most=10,
)
"""A batch of ten at 50 ms a step: a request of 100 tokens is half a worker-second."""
LONG = 1_000.0


def worker(name: str, at: float, state: WorkerState = WorkerState.READY, **more: object) -> Seen:
    load = Load(**{key: value for key, value in more.items() if key in {"running", "waiting"}})  # type: ignore[arg-type]
    report = WorkerReport(
        worker=WorkerId(name), version=V, state=state, url="", zone=str(more.get("zone", "")), load=load
    )
    if "start_s" in more:
        report = replace(report, phases=(PhaseTiming(phase=WorkerState.LOADING, seconds=float(str(more["start_s"]))),))
    if "restart_s" in more:
        report = replace(report, restart_s=float(str(more["restart_s"])))
    return Seen(report=report, at=at, since=float(str(more.get("since", 0.0))))


def asked(per_s: float, *, missing: tuple[str, ...] = (), **more: int) -> Demand:
    rate = Rate(requests=per_s, prompt_tokens=0.0, output_tokens=100.0 * per_s)
    demand = VersionDemand(rates={Standing.PAID: rate} if per_s else {}, **more)
    return Demand(versions={V: demand}, gateways=1, missing=missing, age_s=0.5)


class Version:
    """Ticks of one version; its workers are given anew at each."""

    def __init__(self, *, least: int = 1, most: int = 9, deployed: int = 1, **bounds: object) -> None:
        made = Bounds(versions="*", least=least, most=most, **bounds)  # type: ignore[arg-type]
        self.scaled = Scaled(version=V, bounds=made, tier=TIER, curve=CURVE, deployed=deployed)
        self.state, self.step = State(), Step(state=State(), targets=(), records=())
        self.room: MachineRoom | None = None
        self.since = -math.inf

    def tick(self, now: float, demand: Demand, *workers: Seen, running: tuple[Running, ...] = ()) -> ScaleRecord:
        scene = FleetScene(
            scaled=(self.scaled,),
            seen=workers,
            running=running,
            demand=demand,
            lease_s=5.0,
            since=self.since,
            room=self.room,
        )
        self.step = scale(self.state, scene, now)
        self.state = self.step.state
        return self.step.records[0]

    @property
    def target(self) -> Target:
        return self.step.targets[0]

    @property
    def workers(self) -> int:
        return self.state.versions[V].pace.workers


def fleet(count: int, now: float, **more: object) -> list[Seen]:
    return [worker(f"w{number}", now, WorkerState.READY, **more) for number in range(count)]


def test_out_is_one_step() -> None:
    """Eight requests a second ask for five workers at once; a bound of five cuts nothing."""
    version = Version(most=5)
    record = version.tick(0.0, asked(8.0), *fleet(1, 0.0))
    assert (record.act, record.before, record.after, record.reason) == (Act.OUT, 1, 5, "asked_work")
    assert record.wish == pytest.approx(5.0)
    assert (record.cut, version.target.workers) == ("", 5)
    assert {one.age_s for one in record.signals} == {0.5}


def test_the_bound_cuts_and_is_named() -> None:
    """A wish beyond the most is cut, and the record says by what."""
    record = Version(most=3).tick(0.0, asked(8.0), *fleet(1, 0.0))
    assert (record.after, record.cut) == (3, "most 3")


def test_a_floor_is_no_demand_and_is_named() -> None:
    """Two at least, without anybody asking."""
    record = Version(least=2).tick(0.0, asked(0.0), *fleet(1, 0.0))
    assert (record.act, record.after, record.cut) == (Act.OUT, 2, "floor 2")


def test_a_price_has_a_before_and_an_after() -> None:
    """A decision says what it costs an hour."""
    record = Version(price_per_hour=2.0).tick(0.0, asked(8.0), *fleet(1, 0.0))
    assert (record.per_hour_before, record.per_hour_after) == (2.0, 10.0)


def test_in_waits_for_the_window_and_goes_a_tenth_at_a_time() -> None:
    """Twenty idle workers stay for the window; then two go, then two, then one at a time, each after the last one's
    time.
    """
    version, ended, changes = Version(most=30), set[WorkerId](), list[tuple[float, int]]()
    for second in range(700):
        now = float(second)
        present = [one for one in fleet(20, now) if one.report.worker not in ended]
        record = version.tick(now, asked(0.1), *present)
        ended |= {*version.target.ended}
        if record.act is Act.IN:
            changes.append((now, record.after))
    first = 300.0
    assert changes[:4] == [
        (first, 18),
        (first + 15.0, 17),
        (first + 2 * 15.0, 16),
        (first + 3 * 15.0, 15),
    ]
    assert changes[-1][1] == 1


def test_the_largest_need_of_the_window_holds() -> None:
    """A second of demand for five keeps five until it is five minutes old, and no longer."""
    version = Version(most=5)
    version.tick(0.0, asked(8.0), *fleet(1, 0.0))
    kept = [version.tick(float(now), asked(0.1), *fleet(5, float(now))).after for now in range(1, 302)]
    assert kept[:-2] == [5] * 299
    assert kept[-1] == 4


def test_a_need_within_the_dead_band_keeps_a_worker() -> None:
    """4.7 workers of need keep five, and 3.6 let one of five go."""
    for per_s, after in ((7.52, 5), (5.8, 4)):
        version = Version()
        version.tick(0.0, asked(8.0), *fleet(5, 0.0))
        for second in range(1, 302):
            version.tick(float(second), asked(per_s), *fleet(5, float(second)))
        assert version.workers == after
    narrow = Version()
    narrow.tick(0.0, asked(8.0), *fleet(5, 0.0))
    for second in range(1, 302):
        narrow.tick(float(second), asked(6.0), *fleet(5, float(second)))
    assert narrow.workers == 5


def test_scale_in_has_two_phases() -> None:
    """A cordoned worker leaves the table; it ends once it is idle and the table is known, never before."""
    version = Version()
    begin = LONG
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    record = version.tick(begin, asked(0.1), *fleet(2, begin, running=1))
    assert (record.act, record.after, version.target.ended) == (Act.IN, 1, ())
    (gone,) = version.target.cordoned
    assert version.target.workers == 2
    busy = [worker(one.report.worker, begin + 60, running=1) for one in fleet(2, 0.0)]
    version.tick(begin + 60, asked(0.1), *busy)
    assert (version.target.ended, version.target.workers) == ((), 2)
    version.tick(begin + 61, asked(0.1), *fleet(2, begin + 61))
    assert (version.target.ended, version.target.workers) == ((gone,), 1)


def test_a_waiting_request_is_work_too() -> None:
    """A cordoned worker with a request in its queue does not end."""
    version = Version()
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    version.tick(LONG, asked(0.1), *fleet(2, LONG))
    version.tick(LONG + 9, asked(0.1), *fleet(2, LONG + 9, waiting=1))
    assert version.target.ended == ()


def test_an_idle_worker_settles_before_it_ends() -> None:
    """A request that a gateway sent by the last table still arrives: seconds pass between the phases."""
    version = Version()
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    version.tick(LONG, asked(0.1), *fleet(2, LONG))
    version.tick(LONG + 3.0 - 0.1, asked(0.1), *fleet(2, LONG + 3.0 - 0.1))
    assert version.target.ended == ()
    version.tick(LONG + 3.0, asked(0.1), *fleet(2, LONG + 3.0))
    assert len(version.target.ended) == 1


def test_a_silent_cordoned_worker_does_not_end() -> None:
    """Its last report says idle, and it may have got a stream since."""
    version = Version()
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    version.tick(LONG, asked(0.1), *fleet(2, LONG))
    old = fleet(2, LONG + 4)
    version.tick(LONG + 4 + 5.0, asked(0.1), *old)
    assert version.target.ended == ()
    assert len(version.target.cordoned) == 1
    assert version.target.workers == 1, "nobody counts on one without a process here"


def test_returning_demand_takes_back_before_it_starts() -> None:
    """One cordoned, three more wanted: it serves again, and two are started."""
    version = Version()
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    version.tick(LONG, asked(0.1), *fleet(2, LONG))
    record = version.tick(LONG + 1, asked(3.0), *fleet(2, LONG + 1))
    assert (record.act, version.target.cordoned, version.target.workers) == (Act.TAKE_BACK, frozenset(), 2)
    version = Version()
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    version.tick(LONG, asked(0.1), *fleet(2, LONG))
    record = version.tick(LONG + 1, asked(6.0), *fleet(2, LONG + 1))
    assert (record.act, version.target.cordoned, version.target.workers) == (Act.OUT, frozenset(), 4)


def test_missing_numbers_scale_nothing_in() -> None:
    """With a silent gateway the number stays, for ten minutes and a window after; what is known may still add."""
    version = Version()
    version.tick(0.0, asked(8.0), *fleet(5, 0.0))
    silent = [version.tick(float(now), asked(0.0, missing=("g",)), *fleet(5, float(now))) for now in range(1, 900)]
    assert {(one.act, one.reason, one.after) for one in silent} == {(Act.HOLD, MISSING, 5)}
    back = [version.tick(float(now), asked(0.1), *fleet(5, float(now))).after for now in range(900, 1210)]
    assert back[: int(300.0) - 2] == [5] * (int(300.0) - 2)
    assert back[-1] == 4
    assert version.tick(2000.0, asked(12.8, missing=("g",)), *fleet(4, 2000.0)).act is Act.OUT


def test_a_version_without_a_curve_holds_and_says_why() -> None:
    """Without a speed there is no need: the number stays, floors hold, and holds still ask for one."""
    version = Version()
    version.scaled = replace(version.scaled, curve=None)
    record = version.tick(0.0, asked(9.0), *fleet(3, 0.0))
    assert (record.act, record.after, record.reason) == (Act.HOLD, 3, NO_CURVE)
    assert [one.name for one in record.signals] == ["arriving", "held", "waiting", "running", "kv_used"]
    assert version.tick(LONG, asked(0.1), *fleet(3, LONG)).act is Act.HOLD


def test_an_objective_that_no_batch_meets_is_said() -> None:
    """50 ms a step never are 20: the record says that workers do not mend it."""
    version = Version()
    tier = replace(TIER, objectives=(TIER.objectives[0], replace(TIER.objectives[1], within_s=0.02)))
    version.scaled = replace(version.scaled, tier=tier)
    assert version.tick(0.0, asked(0.1), *fleet(1, 0.0)).reason == f"asked_work; {NO_BATCH}"


def test_the_idlest_of_the_fullest_zone_goes() -> None:
    """Of two in zone a and one in b, the idler one of a is cordoned, though b's is idle too."""
    version = Version()
    three = [
        worker("a1", LONG, zone="a", running=2),
        worker("a2", LONG, zone="a", running=1),
        worker("b1", LONG, zone="b"),
    ]
    version.tick(0.0, asked(0.1), *[replace(one, at=0.0) for one in three])
    version.tick(LONG, asked(0.1), *three)
    assert version.target.cordoned == {"a2"}


def test_zero_only_after_the_idle_time() -> None:
    """A version with floor 0 goes once nobody asked for its idle time; the last one stays asleep."""
    version = Version(least=0, idle_s=60.0, parked=1)
    version.tick(0.0, asked(0.1), *fleet(2, 0.0))
    version.tick(1.0, asked(0.1), *fleet(2, 1.0))
    assert version.tick(60.9, asked(0.0), *fleet(2, 60.9)).after == 2
    record = version.tick(61.0, asked(0.0), *fleet(2, 61.0))
    assert (record.act, record.after, record.reason) == (Act.IN, 0, "idle for 60 s")
    version.tick(70.0, asked(0.0), *fleet(2, 70.0))
    assert (len(version.target.slept), len(version.target.ended), version.target.workers) == (1, 1, 1)


@pytest.mark.parametrize("standing", [Standing.BATCH, Standing.SHADOW])
def test_what_buys_nothing_still_uses(standing: Standing) -> None:
    """Batch work asks for no second worker, and keeps the last one from going."""
    version = Version(least=0, idle_s=60.0)
    some = Demand(versions={V: VersionDemand(rates={standing: Rate(requests=9.0, output_tokens=900.0)})}, gateways=1)
    version.tick(0.0, some, *fleet(1, 0.0))
    assert version.tick(100.0, some, *fleet(1, 100.0)).after == 1


def test_a_running_answer_is_use() -> None:
    """A stream of an hour is no idle time."""
    version = Version(least=0, idle_s=60.0)
    version.tick(0.0, asked(0.0), *fleet(1, 0.0, running=1))
    version.tick(50.0, asked(0.0), *fleet(1, 50.0, running=1))
    assert version.tick(100.0, asked(0.0), *fleet(1, 100.0)).after == 1


def test_missing_numbers_send_nothing_to_zero() -> None:
    """A version is not idle because nobody could say that it is used."""
    version = Version(least=0, idle_s=60.0)
    version.tick(0.0, asked(0.0), *fleet(1, 0.0))
    assert version.tick(100.0, asked(0.0, missing=("g",)), *fleet(1, 100.0)).reason == MISSING


def test_a_held_request_wakes_the_sleeping_worker() -> None:
    """Zero workers and one asleep: a hold wakes it, and starts no other."""
    version = Version(least=0, deployed=0)
    asleep = worker("w0", 0.0, WorkerState.SLEEPING)
    version.tick(0.0, asked(0.0), asleep)
    assert (version.workers, version.target.workers) == (0, 0)
    version.scaled = replace(version.scaled, bounds=replace(version.scaled.bounds, parked=1))
    version.tick(1.0, asked(0.0), replace(asleep, at=1.0))
    assert (version.target.workers, version.target.woken) == (1, ())
    record = version.tick(2.0, asked(0.0, held_requests=1, held_tokens=100), replace(asleep, at=2.0))
    assert (record.act, record.after) == (Act.OUT, 1)
    assert (version.target.woken, version.target.workers) == (("w0",), 1)


def test_a_new_leader_adopts_what_runs() -> None:
    """Four run and none is needed: they stay for a window, as nobody knows what was asked before."""
    version = Version()
    assert version.tick(0.0, asked(0.1), *fleet(4, 0.0)).after == 4
    assert version.tick(300.0 - 1, asked(0.1), *fleet(4, 300.0 - 1)).after == 4
    assert version.tick(300.0, asked(0.1), *fleet(4, 300.0)).after == 3


def test_a_number_set_by_hand_is_adopted_and_named() -> None:
    """A person deploys four: four it is, for a window at least, within the bounds."""
    version = Version(most=5)
    version.tick(0.0, asked(0.1), *fleet(1, 0.0))
    version.scaled = replace(version.scaled, deployed=4)
    record = version.tick(1.0, asked(0.1), *fleet(1, 1.0))
    assert (record.act, record.after, record.reason) == (Act.OUT, 4, BY_HAND)
    assert version.tick(200.0, asked(0.1), *fleet(4, 200.0)).after == 4
    version.scaled = replace(version.scaled, deployed=8)
    assert version.tick(201.0, asked(0.1), *fleet(4, 201.0)).after == 5
    version.scaled = replace(version.scaled, deployed=5)
    assert version.tick(499.0, asked(0.1), *fleet(5, 499.0)).after == 5
    assert version.tick(600.0, asked(0.1), *fleet(5, 600.0)).after == 5, "the present number is a new one, too"


@pytest.mark.parametrize("missing", [(), ("g",)])
def test_beyond_a_lowered_most_workers_go_in_two_phases(missing: tuple[str, ...]) -> None:
    """Bounds that were lowered cordon at once, silent gateways or not; streams end by themselves."""
    version = Version(most=2)
    record = version.tick(0.0, asked(8.0, missing=missing), *fleet(4, 0.0, running=1))
    assert (record.act, record.after, record.reason, len(version.target.cordoned)) == (Act.IN, 2, "most 2", 2)
    assert version.target.workers == 4


def test_a_version_that_is_scaled_no_more_leaves_nothing() -> None:
    """Its state, target and record are gone."""
    version = Version()
    version.tick(0.0, asked(8.0), *fleet(1, 0.0))
    step = scale(version.state, FleetScene(scaled=(), seen=(), running=(), demand=asked(8.0), lease_s=5.0), 1.0)
    assert step == Step(state=State(), targets=(), records=())


def test_a_silent_worker_is_neither_supply_nor_surplus() -> None:
    """A worker whose report is older than its lease does not count."""
    version = Version()
    version.tick(0.0, asked(3.0), *fleet(1, 0.0), worker("w9", -5.0))
    assert version.state.versions[V].pace.ready == 1


def test_guards_judge_the_workers_that_serve_now() -> None:
    """Late answers count a minute after the last worker came, and no earlier."""
    late = asked(0.1, answered=100, late=100)
    version = Version()
    version.tick(0.0, late, *fleet(1, 0.0, running=9))
    assert version.tick(60 - 1, late, *fleet(1, 60 - 1, running=9)).act is Act.HOLD
    assert version.tick(60, late, *fleet(1, 60, running=9)).reason == "late_answers"


def test_a_wish_that_is_the_most_is_cut_by_nothing() -> None:
    """Five wanted and five allowed: neither out nor in names a bound."""
    version = Version(most=5)
    assert version.tick(0.0, asked(8.0), *fleet(1, 0.0)).cut == ""
    record = version.tick(1.0, asked(8.0), *fleet(5, 1.0))
    assert (record.act, record.cut, record.reason) == (Act.HOLD, "", "asked_work")


def test_a_wish_that_is_the_floor_is_cut_by_nothing() -> None:
    """One wanted and one at least."""
    assert Version().tick(0.0, asked(0.1), *fleet(1, 0.0)).cut == ""


def test_without_a_curve_a_hold_asks_for_one_worker() -> None:
    """A version of unknown speed stays at zero until a request is held for it."""
    version = Version(least=0, deployed=0)
    version.scaled = replace(version.scaled, curve=None)
    assert version.tick(0.0, asked(0.0)).after == 0
    assert version.tick(1.0, asked(0.0, held_requests=1)).after == 1
