"""The fleet's plan on a machine whose memory holds fewer versions than are deployed."""

from dataclasses import replace

import pytest

from penstock.capacity.memory import worker_bytes
from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.pool.packing import PoolPolicy, Stay
from penstock.control.pool.plan import plan_pool, stay_of
from penstock.domain.fleet.scaling import Target
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetPlan, FleetView, Running, Seen, Wanted
from penstock.domain.fleet.worker import WorkerOrder, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import AdapterSettings, ModelVersion
from penstock.domain.serving.report import Load
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW

READY, SLEEPING = WorkerState.READY, WorkerState.SLEEPING
A, B, C = (things.version(name) for name in "abc")
SIZE = worker_bytes(A.manifest)


def deployed(*versions: ModelVersion, replicas: int = 1, pinned: tuple[ModelVersion, ...] = ()) -> Catalogue:
    return Catalogue(
        versions=(A, B, C),
        deployments=tuple(Deployment(version=one.id, replicas=replicas, pinned=one in pinned) for one in versions),
    )


def beat(
    of: ModelVersion, state: WorkerState = READY, *, name: str = "", holds: bool = False, running: int = 0
) -> Seen:
    report = things.report(name or of.manifest.name, of.id, state)
    report = replace(report, holds_memory=holds or state is not SLEEPING, load=Load(running=running))
    return Seen(report=report, at=NOW, since=NOW - 100.0, used_at=NOW - 50.0, uses=1.0)


def view(*seen: Seen, wanted: tuple[Wanted, ...] = (), **also: object) -> FleetView:
    running = tuple(
        Running(worker=one.report.worker, version=one.report.version, started_at=NOW - 200.0) for one in seen
    )
    return replace(FleetView(running=running, wanted=wanted), **also)  # type: ignore[arg-type]


def wanted(of: ModelVersion, since: float = NOW) -> Wanted:
    return Wanted(version=of.id, requests=3, tokens=700, since=since)


def step(catalogue: Catalogue, seen: list[Seen], of: FleetView, places: int = 1) -> FleetPlan:
    return pooled(catalogue, seen, of, PoolPolicy(limit_bytes=places * SIZE))


def pooled(catalogue: Catalogue, seen: list[Seen], of: FleetView, pool: PoolPolicy) -> FleetPlan:
    return plan_pool(plan(catalogue, seen, of, NOW, FleetPolicy()), catalogue, seen, of, NOW, pool=pool)


def test_without_a_pool_all_is_as_before() -> None:
    """With no limit everything that is deployed is started."""
    assert step(deployed(A, B, C), [], view(), places=0).start == tuple(sorted((A.id, B.id, C.id)))


def test_new_versions_are_started_as_far_as_they_fit() -> None:
    """One is started and proven; the next one takes its place, as nobody has used it."""
    first = step(deployed(A, B), [], view())
    assert first.start == (A.id,)
    assert [one.target for one in first.why if one.what in {"start", "wait"}] == [A.id, B.id]
    proven = replace(beat(A), uses=0.0, used_at=0.0)
    second = step(deployed(A, B), [proven], view(proven))
    assert (second.start, second.sleep) == ((), ("a",))
    asleep = beat(A, SLEEPING)
    assert step(deployed(A, B), [asleep], view(asleep)).start == (B.id,)


def test_a_sleeping_worker_counts_as_there() -> None:
    """It is neither replaced nor started twice, and nobody wakes it without a reason."""
    asleep = beat(A, SLEEPING)
    assert step(deployed(A), [asleep], view(asleep)) == FleetPlan()


def test_its_silence_is_judged_as_others_is() -> None:
    """A sleeping worker that says nothing for long is replaced."""
    silent = replace(beat(A, SLEEPING), at=NOW - 20.0)
    assert step(deployed(A), [silent], view(silent)).drain == ("a",)


def test_who_is_waited_for_wakes_once_there_is_memory() -> None:
    """The other one sleeps first; it is woken when that has given its memory back, and then left alone."""
    here, away = beat(A), beat(B, SLEEPING)
    first = step(deployed(A, B), [here, away], view(here, away, wanted=(wanted(B),)))
    assert (first.sleep, first.wake) == (("a",), ())
    told = {WorkerId("a"): WorkerOrder.SLEEP}
    assert step(deployed(A, B), [here, away], view(here, away, wanted=(wanted(B),), orders=told)) == FleetPlan()
    holds = beat(A, SLEEPING, holds=True)
    assert step(deployed(A, B), [holds, away], view(holds, away, wanted=(wanted(B),), orders=told)) == FleetPlan()
    gone = beat(A, SLEEPING)
    last = step(deployed(A, B), [gone, away], view(gone, away, wanted=(wanted(B),), orders=told))
    assert last.wake == ("b",)
    assert last.why[0].value == "3 with 700 tokens"
    told[WorkerId("b")] = WorkerOrder.SERVE
    assert step(deployed(A, B), [gone, away], view(gone, away, wanted=(wanted(B),), orders=told)) == FleetPlan()


def test_who_serves_is_not_put_to_sleep() -> None:
    """A worker with a request keeps its place, until somebody has waited for a turn."""
    here, away = beat(A, running=1), beat(B, SLEEPING)
    done = step(deployed(A, B), [here, away], view(here, away, wanted=(wanted(B, NOW - 14.0),)))
    assert (done.sleep, done.wake) == ((), ())
    for catalogue in (deployed(A, B), deployed(A, B, pinned=(B,))):
        done = step(catalogue, [here, away], view(here, away, wanted=(wanted(B, NOW - 16.0),)))
        assert (done.sleep, done.wake) == (("a",), ())
    done = step(deployed(A, B, pinned=(A,)), [here, away], view(here, away, wanted=(wanted(B, NOW - 16.0),)))
    assert done.sleep == ()


@pytest.mark.parametrize("how", ["pinned", "moving"])
def test_pinned_versions_and_those_of_rollouts_never_sleep(how: str) -> None:
    """They are woken without anybody waiting, before others, and keep their places."""
    catalogue = deployed(A, B, pinned=(B,) if how == "pinned" else ())
    moving = frozenset({B.id} if how == "moving" else ())
    here, away = beat(A), beat(B, SLEEPING)
    assert step(catalogue, [here, away], view(here, away, moving=moving)).sleep == ("a",)
    here, away = beat(B), beat(A, SLEEPING)
    assert step(catalogue, [here, away], view(here, away, wanted=(wanted(A),), moving=moving)).sleep == ()


def test_an_adapter_that_is_waited_for_wakes_its_base() -> None:
    """Its requests are served by its base's workers, and its rollout keeps them awake."""
    tuned = things.version("tuned")
    tuned = replace(tuned, manifest=replace(tuned.manifest, adapter=AdapterSettings(base=A.digest, rank=8)))
    catalogue = replace(deployed(A), versions=(A, tuned))
    asleep = beat(A, SLEEPING)
    assert step(catalogue, [asleep], view(asleep, wanted=(wanted(tuned),))).wake == ("a",)
    assert step(catalogue, [asleep], view(asleep, moving=frozenset({tuned.id}))).wake == ("a",)


def test_of_a_base_and_its_adapter_who_waits_longest_counts() -> None:
    """An adapter that has waited for long brings its base before others, though the base itself was just asked for."""
    tuned = things.version("tuned")
    tuned = replace(tuned, manifest=replace(tuned.manifest, adapter=AdapterSettings(base=C.digest, rank=8)))
    catalogue = replace(deployed(A, C), versions=(A, C, tuned))
    one, other = beat(A, SLEEPING), beat(C, SLEEPING)
    for waits in ((wanted(tuned, NOW - 2.0), wanted(C)), (wanted(C), wanted(tuned, NOW - 2.0))):
        found = view(one, other, wanted=(*waits, wanted(A, NOW - 1.0)))
        assert step(catalogue, [one, other], found).wake == ("c",)


def test_who_is_larger_than_the_pool_is_said_to_be_and_does_not_sleep_on() -> None:
    """It is never started, a sleeper of it is ended as nobody can wake it, and both are said with the sizes."""
    pool, asleep = PoolPolicy(limit_bytes=SIZE - 10_000_000), beat(A, SLEEPING)
    for seen in ([], [asleep]):
        done = pooled(deployed(A), seen, view(*seen), pool)
        words = f"does not fit: needs {SIZE / 1e6:.0f} of {SIZE / 1e6 - 10:.0f} MB"
        assert (done.start, done.wake, done.sleep, done.unfit) == ((), (), (), (f"{A.id} {words}",))
        assert done.drain == tuple(one.report.worker for one in seen)
        assert [(one.what, one.value) for one in done.why] == [("drain" if seen else "wait", words)]
    assert step(deployed(A), [], view()).unfit == ()


def test_who_falls_asleep_and_is_wanted_again_is_called_back() -> None:
    """Its memory was never given away: it takes no place, and nobody waits for it."""
    here = beat(A)
    found = view(here, wanted=(wanted(A),), orders={WorkerId("a"): WorkerOrder.SLEEP})
    assert step(deployed(A), [here], found).wake == ("a",)


def test_who_drains_is_waited_for_and_told_nothing() -> None:
    """Its memory comes free by itself: nobody else is put to sleep, and it is not either."""
    going, here, away = beat(A), beat(B), beat(C, SLEEPING)
    found = view(going, here, away, wanted=(wanted(C),))
    found = replace(found, running=(replace(found.running[0], draining=True), *found.running[1:]))
    done = step(deployed(B, C), [going, here, away], found, places=2)
    assert (done.sleep, done.wake) == ((), ())


def test_nothing_is_done_while_the_host_cannot_say_what_runs() -> None:
    """Who runs is not known, so nobody is woken into memory that may be taken."""
    asleep = beat(A, SLEEPING)
    assert step(deployed(A), [asleep], view(asleep, wanted=(wanted(A),), is_known=False)) == FleetPlan()


def test_who_is_served_needs_nobody_woken() -> None:
    """A gateway that has not heard yet that one is ready wakes no second one."""
    one, two = beat(A, name="a1"), beat(A, SLEEPING, name="a2")
    assert step(deployed(A, replicas=2), [one, two], view(one, two, wanted=(wanted(A),)), places=2).wake == ()


def test_who_wakes_soonest_is_woken() -> None:
    """Of several that sleep the one whose last start took least."""
    slow, quick = beat(A, SLEEPING, name="a1"), beat(A, SLEEPING, name="a2")
    slow = replace(slow, report=replace(slow.report, restart_s=9.0))
    assert step(deployed(A, replicas=2), [slow, quick], view(slow, quick, wanted=(wanted(A),)), places=2).wake == (
        "a2",
    )


def test_of_too_many_one_that_was_never_proven_goes_before_one_that_sleeps() -> None:
    """A sleeping worker has served; one that starts has not."""
    asleep, starts = beat(A, SLEEPING, name="asleep"), beat(A, WorkerState.LOADING, name="starts")
    assert step(deployed(A), [asleep, starts], view(asleep, starts), places=2).drain == ("starts",)


def test_one_of_several_workers_wakes_and_the_next_when_it_is_busy() -> None:
    """Who is waited for gets one worker; the second one wakes into free memory when the first has its hands full."""
    one, two = beat(A, SLEEPING, name="a1"), beat(A, SLEEPING, name="a2")
    catalogue = deployed(A, replicas=2)
    assert step(catalogue, [one, two], view(one, two, wanted=(wanted(A),)), places=2).wake == ("a1",)
    busy = beat(A, name="a1", running=1)
    assert step(catalogue, [busy, two], view(busy, two), places=2).wake == ("a2",)
    assert step(catalogue, [busy, two], view(busy, two), places=1).wake == ()


def test_a_sleeping_worker_is_replaced_in_turn_and_goes_first_when_there_are_too_many() -> None:
    """A rolling restart starts its successor before it is drained; of too many the sleeping one goes."""
    old = beat(A, SLEEPING, name="old")
    catalogue = deployed(A)
    renewed = replace(catalogue, deployments=(Deployment(version=A.id, replicas=1, renew_before=NOW),))
    assert step(renewed, [old], view(old)).start == (A.id,)
    successor = beat(A, WorkerState.LOADING, name="new")
    both = FleetView(
        running=(
            Running(worker=WorkerId("old"), version=A.id, started_at=NOW - 9.0),
            Running(worker=WorkerId("new"), version=A.id, started_at=NOW + 1.0),
        )
    )
    assert step(renewed, [old, successor], both).drain == ()
    assert step(renewed, [old, beat(A, name="new")], both).drain == ("old",)
    awake = beat(A, name="awake")
    assert step(catalogue, [awake, old], view(awake, old)).drain == ("old",)


def test_a_restart_that_has_no_room_for_two_puts_the_old_one_to_sleep() -> None:
    """In a pool of one place the successor takes the place of the one that it succeeds."""
    old = beat(A, name="old")
    renewed = replace(deployed(A), deployments=(Deployment(version=A.id, replicas=1, renew_before=NOW),))
    done = step(renewed, [old], view(old))
    assert (done.start, done.sleep, done.drain) == ((), ("old",), ())


@pytest.mark.parametrize(
    ("state", "order", "holds", "stay"),
    [
        (READY, None, True, Stay.HERE),
        (READY, WorkerOrder.SERVE, True, Stay.HERE),
        (READY, WorkerOrder.SLEEP, True, Stay.FALLING_ASLEEP),
        (SLEEPING, WorkerOrder.SLEEP, True, Stay.FALLING_ASLEEP),
        (SLEEPING, None, False, Stay.AWAY),
        (SLEEPING, WorkerOrder.SERVE, False, Stay.COMING),
        (WorkerState.WAKING, WorkerOrder.SERVE, True, Stay.COMING),
        (WorkerState.LOADING, None, True, Stay.COMING),
        (WorkerState.DRAINING, None, True, Stay.LEAVING),
        (WorkerState.FAILED, None, True, Stay.LEAVING),
    ],
)
def test_how_a_worker_stands_to_the_memory(
    state: WorkerState,
    order: WorkerOrder | None,
    holds: bool,
    stay: Stay,
) -> None:
    """Only who says that it gave its memory back, and was not told to take it again, holds none."""
    report = replace(things.report("w", VersionId("v"), state), holds_memory=holds)
    assert stay_of(report, order) is stay


def test_who_has_not_reported_yet_holds_its_memory() -> None:
    """A process that was just started is counted at once."""
    assert stay_of(None, None) is Stay.COMING


def test_who_has_no_place_beside_pins_is_named() -> None:
    """With the remedy, in what `penstock status` says."""
    known = deployed(A, B, pinned=(A,))
    (says,) = step(known, [beat(A), beat(B, SLEEPING)], view(beat(A), beat(B, SLEEPING))).unfit
    assert says.startswith(f"{B.id} has no place beside what is pinned")
    assert "penstock models unpin" in says
    assert step(known, [beat(A)], view(beat(A)), places=2).unfit == ()


def test_of_a_scaled_version_only_the_named_sleeper_wakes() -> None:
    """Its busy worker claims no second one: the number is the autoscaler's, the memory for it the pool's."""
    seen = [beat(A, name="a1", running=1), beat(A, SLEEPING, name="a2")]
    idle = Target(version=A.id, workers=2)
    catalogue = deployed(A, replicas=2)
    assert step(catalogue, seen, view(*seen), places=2).wake == ("a2",)
    assert step(catalogue, seen, view(*seen, targets={A.id: idle}), places=2).wake == ()
    woken = replace(idle, woken=(WorkerId("a2"),))
    assert step(catalogue, seen, view(*seen, targets={A.id: woken}), places=2).wake == ("a2",)
    assert step(catalogue, seen, view(*seen, targets={A.id: woken}), places=1).wake == ()


def test_a_worker_that_the_autoscaler_lets_sleep_sleeps() -> None:
    """Its memory is free before another version claims it."""
    seen = [beat(A, name="a1")]
    target = Target(version=A.id, workers=1, slept=(WorkerId("a1"),))
    assert step(deployed(A), seen, view(*seen, targets={A.id: target}), places=1).sleep == ("a1",)
