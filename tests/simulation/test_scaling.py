"""Replays of what went wrong with other autoscalers, against the real law in virtual time.

Each names the thread that it is from, or the section of the facts. In none of them is a stream broken.
"""

import math
import random
from dataclasses import replace

from penstock.domain.fleet.scaling import ScaleRecord, Target
from penstock.scaling.stage import MISSING, FleetScene, State, Step, scale
from tests.simulation.engines_in_time import VERSION, Request, World, bounds, poisson


def chance() -> random.Random:
    return random.Random(20261127)


CALM, CROWD = 0.5, 5.0
"""Requests a second; one worker at its objective takes 3.5."""


def whole(world: World) -> World:
    """Check that no stream was broken, and that each request was answered, refused or still runs."""
    assert world.broken == 0
    inside = sum(one.held for one in world.engines.values()) + len(world.held)
    assert world.served + world.refused + inside + len(world.to_come) == len(world.arrivals)
    return world


def queue_depth(state: State, scene: FleetScene, now: float) -> Step:
    """KEDA's rule of thumb: a worker for each five waiting requests, and surplus ones end after five minutes."""
    step = scale(state, scene, now)
    pace = step.state.versions[VERSION].pace
    waiting = sum(one.report.load.waiting for one in scene.seen)
    busy = {one.report.worker for one in scene.seen if one.report.load.running}
    wish = max(1, math.ceil(waiting / 5), min(len(scene.seen), len(busy)))
    kept = [(at, number) for at, number in pace.needs if now - at < 300.0]
    workers = max([wish, *(int(number) for _, number in kept)])
    mine = replace(pace, workers=workers, needs=(*kept, (now, float(wish))), cordoned={})
    tracked = replace(step.state.versions[VERSION], pace=mine)
    record: ScaleRecord = step.records[0]
    return Step(
        state=State(versions={VERSION: tracked}), targets=(Target(version=VERSION, workers=workers),), records=(record,)
    )


def test_zero_traffic_is_zero() -> None:
    """No traffic is a need of zero and no NaN; the version goes to zero after its idle time and is woken by a hold."""
    # Dynamo #6985 and #3131 never scaled down.
    asks = [Request(at=1.0), Request(at=200.0)]
    world = whole(World(arrivals=asks, bounds=bounds(least=0, parked=1, idle_s=60.0)).run(230))
    assert all(one.wish is not None and math.isfinite(one.wish) for one in world.records)
    assert [one.after for one in world.acts] == [0, 1]
    assert world.served == 2
    assert world.ttft_s[1] < 5.0


def test_a_noisy_plateau_changes_nothing_twice() -> None:
    """Demand around the threshold for ten minutes: at most one change."""
    # Dynamo #9294 went 2, 1, 2, 1.
    world = whole(World(arrivals=poisson([(600.0, 2.6)], chance()), bounds=bounds()).run(600))
    assert len(world.acts) <= 1


def test_a_queue_counts_as_load() -> None:
    """A burst that ended still waits: workers come for the queue alone."""
    # Dynamo #10528 was blind to it.
    burst = [Request(at=1.0, output=400) for _ in range(90)]
    world = whole(World(arrivals=burst, bounds=bounds(most=1)).run(16))
    later = [one for one in world.records if 12.0 <= one.at < 15.0]
    assert all(one.reason.startswith("backlog") and one.cut == "most 1" for one in later)
    assert all(one.wish is not None and one.wish > 1 for one in later)
    assert len(later) == 3


def test_an_unschedulable_worker_blocks_nothing() -> None:
    """A worker that no node has room for stops neither another one nor scale-in."""
    # Dynamo #14251 froze.
    world = World(
        arrivals=poisson([(60.0, CALM), (540.0, CROWD), (600.0, CALM)], chance()),
        bounds=bounds(most=4),
        start_s=lambda now: None if now < 80 else 20.0,
    )
    whole(world.run(1200))
    assert len([one for one in world.engines.values() if one.is_heard]) < 3
    came = [one for one in world.records if one.after > 1]
    assert came
    assert max(len(world.ready), world.records[-1].after) == 1
    assert world.in_slo() > 0.5


def test_a_removed_workers_numbers_go_with_it() -> None:
    """A worker that is gone leaves no backlog behind."""
    # llm-d-router #2529 summed a stale series for ever.
    burst = [Request(at=1.0, output=400) for _ in range(60)]
    world = World(arrivals=burst, bounds=bounds(most=1)).run(3)
    assert signal(world, "backlog") > 0
    world.engines.clear()
    world.run(5)
    assert signal(world, "backlog") == 0


def signal(world: World, name: str) -> float:
    return next(one.value for one in world.records[-1].signals if one.name == name)


def test_missing_numbers_hold_for_ten_minutes() -> None:
    """Gateways are silent while demand falls to nothing: nothing scales in."""
    # KEDA with `or vector(0)` did.
    world = World(
        arrivals=poisson([(120.0, CROWD)], chance()),
        bounds=bounds(),
        start_s=lambda _: 20.0,
        is_silent=lambda now: 120 <= now < 720,
    )
    whole(world.run(725))
    before = [one.after for one in world.records if one.at < 120][-1]
    silent = [one for one in world.records if 126 <= one.at < 720]
    assert before > 1
    assert {one.after for one in silent} == {before}
    assert {one.reason for one in silent} == {MISSING}


def test_a_flash_crowd_is_met_at_once_and_paid_for_once() -> None:
    """Ten times the demand within twenty seconds: more often in the objective than by queue depth, in no more hours."""
    crowd = [(120.0, CALM), (20.0, CROWD / 2), (240.0, CROWD), (400.0, CALM)]
    ours, depth = (
        World(arrivals=poisson(crowd, chance()), bounds=bounds(), start_s=lambda _: 20.0, decide=decide)
        for decide in (scale, queue_depth)
    )
    whole(ours.run(780))
    depth.run(780)
    assert ours.in_slo() > max(0.9, depth.in_slo())
    assert ours.worker_s <= depth.worker_s * 1.05
    assert max(one.after for one in ours.records) <= 3
    assert ours.records[-1].after == 1


def test_a_hot_tenant_buys_no_gpu() -> None:
    """One tenant among two hundred asks more than its share of slots: its queue grows beside free ones."""
    hot = poisson([(240.0, 1.2)], chance())
    others = [replace(one, tenant=1 + number % 200) for number, one in enumerate(poisson([(240.0, 0.2)], chance()))]
    world = World(arrivals=[*hot, *others], bounds=bounds(), tenant_slots=2)
    whole(world.run(240))
    assert any(len(one.waits) for one in world.engines.values()) or world.refused > 5
    assert world.acts == []
    assert any("beside idle workers: no capacity is missing" in one.reason for one in world.records)


def test_a_start_six_times_slower_is_waited_for() -> None:
    """Starts take two minutes instead of twenty seconds: what comes is counted, and the number stays near the need."""
    world = World(
        arrivals=poisson([(60.0, CALM), (20.0, CROWD), (300.0, CROWD)], chance()),
        bounds=bounds(),
        start_s=lambda now: 20.0 if now < 60 else 120.0,
    )
    whole(world.run(380))
    assert max(one.after for one in world.records) <= 4
    assert len(world.ready) >= 2


def test_scale_in_moves_on_over_zones() -> None:
    """After a crowd the zones stay even: no zone keeps two workers more than another."""
    world = World(
        arrivals=poisson([(60.0, 14.0), (600.0, CALM)], chance()),
        bounds=bounds(),
        deployed=6,
        zones=("a", "b", "c"),
    )
    whole(world.run(660))
    zones = [one.zone for one in world.ready]
    assert max(map(zones.count, "abc")) - min(map(zones.count, "abc")) <= 1
