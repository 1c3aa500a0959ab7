"""What a host serves that numbers its workers itself: single steps."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.fleet.versions import plan_versions
from penstock.domain.fleet.scaling import Target
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.report import Load
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW

TINY = things.version("tiny")
POLICY = FleetPolicy(lease_s=5.0, silence_s=15.0)
W1 = WorkerId("w1")


def scaled(workers: int, **more: object) -> dict[VersionId, Target]:
    return {TINY.id: Target(version=TINY.id, workers=workers, **more)}  # type: ignore[arg-type]


def step(replicas: int, view: FleetView, *seen: Seen, renew: tuple[WorkerId, ...] = ()) -> FleetPlan:
    deployment = Deployment(version=TINY.id, replicas=replicas, renew=renew)
    return plan_versions(Catalogue(versions=(TINY,), deployments=(deployment,)), seen, view, NOW, POLICY)


def pod(*, draining: bool = False, age_s: float = 100.0) -> FleetView:
    running = Running(worker=W1, version=TINY.id, started_at=NOW - age_s, draining=draining)
    return FleetView(running=(running,), placed=(TINY.id,), since=NOW - 100.0)


def beat(state: WorkerState, *, running: int = 0, ago_s: float = 0.0) -> Seen:
    report = replace(things.report("w1", TINY.id, state), load=Load(running=running))
    return things.seen(report, NOW - ago_s)


def test_a_wanted_version_is_served_and_nobody_is_started() -> None:
    """What a version needs goes to the host: a person's number, which is its floor, too, and one worker's memory."""
    found = step(3, FleetView())
    (served,) = found.served or ()
    engine = TINY.manifest.engine
    assert (served.version, served.least, served.workers, served.is_scaled) == (TINY.id, 3, 3, False)
    assert served.held_bytes == TINY.manifest.size_bytes + engine.kv_cache_bytes
    assert (found.start, found.drain, found.withdrawn) == ((), (), ())


@pytest.mark.parametrize("extra", [0, 5])
def test_a_number_of_its_own_is_left_alone(extra: int) -> None:
    """Finding 3.7: with more workers than wanted, or fewer, nobody is drained and nobody started."""
    running = tuple(Running(worker=WorkerId(f"w{n}"), version=TINY.id, started_at=NOW) for n in range(extra))
    found = step(3, FleetView(running=running, placed=(TINY.id,)))
    assert (found.start, found.drain, found.ended, found.withdrawn) == ((), (), (), ())


def test_a_version_leaves_the_table_before_it_goes() -> None:
    """First its workers are told to drain; nothing is withdrawn while one of them has a stream."""
    first = step(0, pod(), beat(WorkerState.READY, running=1))
    assert (first.drain, first.withdrawn) == ((W1,), ())
    busy = step(0, pod(draining=True), beat(WorkerState.DRAINING, running=1))
    assert (busy.drain, busy.withdrawn) == ((), ())
    assert step(0, pod(draining=True), beat(WorkerState.DRAINING)).withdrawn == (TINY.id,)
    assert step(0, pod(draining=True), beat(WorkerState.STOPPED)).withdrawn == (TINY.id,)


def test_told_to_drain_is_not_drained() -> None:
    """A worker that still calls itself ready has not heard yet, idle as it may be."""
    assert step(0, pod(draining=True), beat(WorkerState.READY)).withdrawn == ()


def test_silence_is_waited_for_and_not_for_ever() -> None:
    """A drained worker that says nothing may have streams until silence is borne no longer."""
    assert step(0, pod(draining=True), beat(WorkerState.DRAINING, running=1, ago_s=14.0)).withdrawn == ()
    assert step(0, pod(draining=True), beat(WorkerState.DRAINING, ago_s=6.0)).withdrawn == ()
    assert step(0, pod(draining=True), beat(WorkerState.DRAINING, running=1, ago_s=15.0)).withdrawn == (TINY.id,)


def test_a_new_leader_listens_first() -> None:
    """Who leads since a moment ago holds silence from before against nobody."""
    assert step(0, replace(pod(draining=True), since=NOW - 5.0)).withdrawn == ()
    assert step(0, replace(pod(draining=True), since=NOW - 15.0)).withdrawn == (TINY.id,)


def test_a_version_without_workers_is_withdrawn() -> None:
    """Scaled to nothing, it has no stream to wait for."""
    assert step(0, FleetView(placed=(TINY.id,))).withdrawn == (TINY.id,)


def test_a_renewed_worker_drains_then_ends() -> None:
    """A worker that is named for renewal drains, and ends once it is free; its version stays."""
    first = step(1, pod(), beat(WorkerState.READY), renew=(W1,))
    assert (first.drain, first.ended) == ((W1,), ())
    second = step(1, pod(draining=True), beat(WorkerState.DRAINING), renew=(W1,))
    assert (second.drain, second.ended, second.withdrawn) == ((), (W1,), ())


@pytest.mark.parametrize("policy", [plan, plan_versions])
def test_unknown_changes_nothing(policy: Callable[..., FleetPlan]) -> None:
    """A host that can't be asked is told nothing: what is missing from its view may exist."""
    view = FleetView(is_known=False)
    catalogue = Catalogue(versions=(TINY,), deployments=(Deployment(version=TINY.id, replicas=2),))
    assert policy(catalogue, [], view, NOW, POLICY) == FleetPlan()


def test_a_version_of_several_gpus_asks_for_them() -> None:
    """A worker takes as many GPUs as its version is spread over, and a KV cache on each of them."""
    manifest = replace(TINY.manifest, engine=replace(TINY.manifest.engine, tensor_parallel_size=4))
    deployment = Deployment(version=TINY.id, replicas=1)
    catalogue = Catalogue(versions=(replace(TINY, manifest=manifest),), deployments=(deployment,))
    (served,) = plan_versions(catalogue, [], FleetView(), NOW, POLICY).served or ()
    assert (served.gpus, served.held_bytes) == (4, manifest.size_bytes + 4 * manifest.engine.kv_cache_bytes)


def test_a_scaled_number_is_the_autoscalers() -> None:
    """The floor is the scale file's, the number the target's, whatever a person deployed; 0 is a number, too."""
    for workers in (0, 5):
        (served,) = step(3, replace(pod(), targets=scaled(workers, least=1))).served or ()
        assert (served.least, served.workers, served.is_scaled) == (1, workers, True)


def test_the_number_sinks_after_the_drained_is_marked() -> None:
    """An idle worker is drained first, under the old number: a smaller one would end another before it is marked."""
    named = scaled(0, ended=(W1,))
    first = step(3, replace(pod(), targets=named), beat(WorkerState.READY))
    ((served,), drained) = (first.served or (), first.drain)
    assert (served.workers, drained) == (1, (W1,))
    then = step(3, replace(pod(draining=True), targets=scaled(0)), beat(WorkerState.DRAINING))
    assert [one.workers for one in then.served or ()] == [0]
    assert (then.drain, then.ended) == ((), (W1,))


def test_a_cordoned_worker_with_a_stream_is_counted() -> None:
    """Cordoned and busy, it is neither drained nor missing from the number, which the autoscaler says with it."""
    target = scaled(1, cordoned=frozenset({W1}))
    found = step(3, replace(pod(), targets=target), beat(WorkerState.READY, running=1))
    assert [one.workers for one in found.served or ()] == [1]
    assert (found.drain, found.ended) == ((), ())


def test_sleep_and_wake_are_passed_on() -> None:
    """Orders to sleep and to wake go with the heartbeat, on every host."""
    found = step(3, replace(pod(), targets=scaled(1, slept=(W1,), woken=(WorkerId("w2"),))))
    assert (found.sleep, found.wake) == ((W1,), (WorkerId("w2"),))
