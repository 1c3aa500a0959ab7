"""What a host serves that numbers its workers itself: single steps."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.fleet.versions import plan_versions
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.load import Load
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW

TINY = things.version("tiny")
POLICY = FleetPolicy(lease_s=5.0, silence_s=15.0)
W1 = WorkerId("w1")


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
    """What a version needs goes to the host: how few, and how much memory; how many is not ours to say."""
    found = step(3, FleetView())
    (served,) = found.served or ()
    engine = TINY.manifest.engine
    assert (served.version, served.least) == (TINY.id, 3)
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
