"""What to start and what to drain: single steps."""

from dataclasses import replace
from functools import partial

import pytest

from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.domain.fleet.scaling import Target
from penstock.domain.fleet.versions import Catalogue, Death, Deployment, FleetPlan, FleetView, Running, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW, TINY

POLICY = FleetPolicy(lease_s=5.0, silence_s=15.0, start_timeout_s=60.0)
step = partial(plan, policy=POLICY)
NOTHING = FleetPlan()


def wants(replicas: int, *, renew_before: float = 0.0, renew: tuple[WorkerId, ...] = ()) -> Catalogue:
    deployment = Deployment(version=TINY, replicas=replicas, renew_before=renew_before, renew=renew)
    return Catalogue(deployments=(deployment,))


def process(name: str, *, age_s: float = 100.0, draining: bool = False) -> Running:
    return Running(worker=WorkerId(name), version=TINY, started_at=NOW - age_s, draining=draining)


def beat(name: str, state: WorkerState = WorkerState.READY, *, ago_s: float = 0.0, tokens: int = 0) -> Seen:
    return things.seen(things.report(name, TINY, state, queued_tokens=tokens), NOW - ago_s)


def view(*running: Running, deaths: tuple[float, ...] = ()) -> FleetView:
    return FleetView(
        running=running,
        deaths=tuple(Death(worker=WorkerId(f"dead{n}"), version=TINY, at=NOW - ago) for n, ago in enumerate(deaths)),
    )


def test_missing_workers_are_started() -> None:
    """From nothing, every wanted worker is started."""
    assert step(wants(3), [], view(), NOW) == FleetPlan(start=(TINY,) * 3)


def test_a_starting_worker_counts() -> None:
    """A process that has not reported yet is not started a second time."""
    assert step(wants(1), [], view(process("w1", age_s=1.0)), NOW) == NOTHING
    assert step(wants(1), [beat("w1", WorkerState.LOADING)], view(process("w1")), NOW) == NOTHING


def test_a_worker_that_only_reports_counts() -> None:
    """A worker that somebody started elsewhere fills a place as long as it reports."""
    assert step(wants(1), [beat("guest")], view(), NOW) == NOTHING
    assert step(wants(1), [beat("guest", ago_s=5.0)], view(), NOW).start == (TINY,)


def test_a_dead_worker_is_replaced_at_once() -> None:
    """Its last heartbeat is young, and its host saw its process end since then; a heartbeat after that counts."""
    dead = Death(worker=WorkerId("w1"), version=TINY, at=NOW - 0.5)
    gone = FleetView(deaths=(dead,))
    assert step(wants(1), [beat("w1", ago_s=1.0)], gone, NOW).start == (TINY,)
    assert step(wants(1), [beat("w1", ago_s=0.2)], gone, NOW) == NOTHING


def test_the_idlest_extra_worker_is_drained() -> None:
    """Of too many ready workers the one with the least work goes."""
    seen = [beat("w1", tokens=9), beat("w2", tokens=1), beat("w3", tokens=5)]
    everybody = view(process("w1"), process("w2"), process("w3"))
    assert step(wants(2), seen, everybody, NOW).drain == ("w2",)
    assert step(wants(0), seen, everybody, NOW).drain == ("w1", "w2", "w3")


def test_a_starting_extra_worker_goes_before_a_ready_one() -> None:
    """What does not serve yet is given up first."""
    seen = [beat("w1"), beat("w2", WorkerState.LOADING)]
    assert step(wants(1), seen, view(process("w1"), process("w2")), NOW).drain == ("w2",)


def test_workers_of_a_version_that_is_not_deployed_are_drained() -> None:
    """A version without a deployment has no workers."""
    assert step(Catalogue(), [beat("w1")], view(process("w1")), NOW) == FleetPlan(drain=(WorkerId("w1"),))


def test_a_draining_worker_is_replaced_and_left_alone() -> None:
    """Who was told to go does not count and is not told twice."""
    assert step(wants(1), [beat("w1")], view(process("w1", draining=True)), NOW) == FleetPlan(start=(TINY,))
    assert step(wants(1), [beat("w1", WorkerState.DRAINING)], view(process("w1")), NOW) == FleetPlan(start=(TINY,))


@pytest.mark.parametrize(("age_s", "is_replaced"), [(59.0, False), (60.0, True)])
def test_a_process_that_never_reports_is_replaced(age_s: float, is_replaced: bool) -> None:
    """After the start timeout a silent process is drained and another one started."""
    expected = FleetPlan(start=(TINY,), drain=(WorkerId("w1"),)) if is_replaced else NOTHING
    assert step(wants(1), [], view(process("w1", age_s=age_s)), NOW) == expected


@pytest.mark.parametrize(("silent_s", "is_replaced"), [(14.0, False), (15.0, True)])
def test_a_worker_that_falls_silent_is_replaced(silent_s: float, is_replaced: bool) -> None:
    """A frozen worker gets a successor after its silence, not at its first late heartbeat."""
    expected = FleetPlan(start=(TINY,)) if is_replaced else NOTHING
    assert step(wants(1), [beat("w1", ago_s=silent_s)], view(process("w1")), NOW) == expected


@pytest.mark.parametrize(
    ("state", "silent_s", "successor", "is_drained"),
    [
        (WorkerState.READY, 59.0, WorkerState.LOADING, False),
        (WorkerState.READY, 15.0, WorkerState.READY, True),
        (WorkerState.READY, 60.0, WorkerState.LOADING, True),
        (WorkerState.LOADING, 15.0, WorkerState.LOADING, True),
    ],
)
def test_a_silent_worker_ends_when_its_successor_serves(
    state: WorkerState, silent_s: float, successor: WorkerState, is_drained: bool
) -> None:
    """Its engine may serve until then; one that did not serve ends at once, and a successor is given a start's time."""
    seen = [beat("w1", state, ago_s=silent_s), beat("w2", successor)]
    made = step(wants(1), seen, view(process("w1"), process("w2", age_s=1.0)), NOW)
    assert made == (FleetPlan(drain=(WorkerId("w1"),)) if is_drained else NOTHING)


def test_a_silent_worker_of_a_version_that_is_wanted_no_more_ends_at_once() -> None:
    """No successor comes."""
    assert step(wants(0), [beat("w1", ago_s=15.0)], view(process("w1")), NOW) == FleetPlan(drain=(WorkerId("w1"),))


def test_silence_before_this_controller_listened_is_held_against_nobody() -> None:
    """After a restart of the controller, living workers get their time to report before they are replaced."""
    fresh_start = replace(view(process("w1")), since=NOW - 3.0)
    assert step(wants(1), [beat("w1", ago_s=500.0)], fresh_start, NOW) == NOTHING


def test_a_failed_worker_is_drained_and_replaced() -> None:
    """The first failure is answered at once."""
    seen = [beat("w1", WorkerState.FAILED)]
    assert step(wants(1), seen, view(process("w1")), NOW) == FleetPlan(start=(TINY,), drain=(WorkerId("w1"),))


@pytest.mark.parametrize(
    ("deaths", "is_started"),
    [
        ((0.0,), True),
        ((0.5, 30.0), False),
        ((1.0, 30.0), True),
        ((3.9, 9.0, 10.0, 11.0), False),
        ((4.0, 9.0, 10.0, 11.0), True),
        ((59.0, *(60.0 + n for n in range(20))), False),
        ((61.0, *(62.0 + n for n in range(20))), True),
        ((0.5, 301.0), True),
        ((0.1,) * 8, True),
        ((0.1, 0.2, 0.3, 1.5), False),
    ],
)
def test_a_version_that_keeps_dying_waits(deaths: tuple[float, ...], is_started: bool) -> None:
    """Each further death within the window doubles the wait, up to its cap; old deaths are forgotten."""
    assert bool(step(wants(1), [], view(deaths=deaths), NOW).start) is is_started


def test_a_failure_that_became_a_death_counts_once() -> None:
    """A worker that reported its failure and then ended is one death, not two."""
    seen = [beat("dead0", WorkerState.FAILED, ago_s=0.1)]
    assert step(wants(1), seen, view(deaths=(0.1,)), NOW).start == (TINY,)


def test_another_version_is_not_held_up() -> None:
    """The back-off of one version delays no other one."""
    other = things.version().id
    catalogue = Catalogue(
        deployments=(Deployment(version=TINY, replicas=1), Deployment(version=other, replicas=1)),
    )
    assert step(catalogue, [], view(deaths=(0.1, 2.0)), NOW).start == (other,)


def test_a_rolling_restart_starts_the_new_one_first() -> None:
    """With outdated workers one more is started, and nobody is drained before it is ready."""
    renewed = wants(2, renew_before=NOW - 10)
    old = (process("w1"), process("w2"))
    assert step(renewed, [beat("w1"), beat("w2")], view(*old), NOW) == FleetPlan(start=(TINY,))
    new = process("w3", age_s=5.0)
    starting = [beat("w1"), beat("w2"), beat("w3", WorkerState.LOADING)]
    assert step(renewed, starting, view(*old, new), NOW) == NOTHING
    ready = [beat("w1", tokens=5), beat("w2"), beat("w3")]
    assert step(renewed, ready, view(*old, new), NOW) == FleetPlan(drain=(WorkerId("w2"),))


def test_a_rolling_restart_waits_for_the_one_that_leaves() -> None:
    """While an old worker drains, no further one is started."""
    renewed = wants(2, renew_before=NOW - 10)
    everybody = view(process("w1"), process("w2", draining=True), process("w3", age_s=5.0))
    assert step(renewed, [beat("w1"), beat("w2"), beat("w3")], everybody, NOW) == NOTHING


def test_one_worker_can_be_renewed_by_name() -> None:
    """Only the named worker is replaced."""
    renewed = wants(2, renew=(WorkerId("w1"),))
    everybody = view(process("w1"), process("w2"), process("w3", age_s=1.0))
    assert step(renewed, [beat("w1"), beat("w2"), beat("w3")], everybody, NOW) == FleetPlan(drain=(WorkerId("w1"),))


def reasons(*plans: FleetPlan) -> list[tuple[str, str, str, str]]:
    return [(one.what, one.target, one.signal, one.value) for made in plans for one in made.why]


def test_each_change_has_its_signal_and_its_objective() -> None:
    """Starts, drains and waits say what was looked at, what it said, and what it was held against."""
    failed = replace(
        beat("w1", WorkerState.FAILED),
        report=replace(beat("w1").report, detail="out of memory", state=WorkerState.FAILED),
    )
    replaced = step(wants(1), [failed], view(process("w1")), NOW)
    silent = step(wants(1), [beat("w1", WorkerState.LOADING, ago_s=15.0)], view(process("w1")), NOW)
    waits = step(wants(1), [], view(deaths=(0.5, 30.0)), NOW)
    surplus = step(wants(1), [beat("w1"), beat("w2", tokens=9)], view(process("w1"), process("w2")), NOW)
    assert reasons(replaced, silent, waits, surplus) == [
        ("drain", "w1", "worker_state", "failed: out of memory"),
        ("start", TINY, "workers_counted", "0 serve or will serve"),
        ("drain", "w1", "heartbeat_age_s", "15 or more"),
        ("start", TINY, "workers_counted", "0 serve or will serve"),
        ("wait", TINY, "worker_deaths", "2 within 300 s"),
        ("drain", "w1", "workers_counted", "2 serve or will serve"),
    ]
    assert surplus.why[0].objective == f"deployed workers of {TINY}: 1"
    assert [one.target for one in replaced.why if one.what == "drain"] == list(replaced.drain)


def test_a_replacement_says_that_it_is_one() -> None:
    """One more than deployed is started because another one is outdated."""
    made = step(wants(1, renew_before=NOW), [beat("w1")], view(process("w1")), NOW)
    assert reasons(made) == [("start", TINY, "workers_outdated", "1 serve or will serve")]


def aims(workers: int, *, running: tuple[Running, ...], **target: tuple[WorkerId, ...]) -> FleetView:
    """Return a view in which the version is scaled to this number."""
    return replace(view(*running), targets={TINY: Target(version=TINY, workers=workers, **target)})  # type: ignore[arg-type]


def test_a_scaled_version_has_its_targets_number() -> None:
    """More than is deployed, or fewer."""
    assert step(wants(1), [], aims(3, running=()), NOW).start == (TINY,) * 3
    assert step(wants(3), [beat("w1")], aims(1, running=(process("w1"),)), NOW) == NOTHING


def test_of_a_scaled_version_the_named_worker_leaves_and_no_other() -> None:
    """Not the idlest one: the named one left the table before."""
    running = tuple(process(name) for name in ("w1", "w2", "w3"))
    seen = [beat("w1", tokens=0), beat("w2", tokens=5), beat("w3", tokens=9)]
    assert step(wants(3), seen, aims(2, running=running, ended=(WorkerId("w3"),)), NOW).drain == ("w3",)
    assert step(wants(3), seen, aims(1, running=running, ended=(WorkerId("w3"),)), NOW).drain == ("w3",)
    assert step(wants(3), seen, aims(1, running=running), NOW).drain == ()


@pytest.mark.parametrize(
    ("state", "leaves"),
    [(WorkerState.LOADING, True), (WorkerState.SLEEPING, True), (WorkerState.WAKING, False), (None, False)],
)
def test_of_a_scaled_version_a_worker_without_streams_may_leave(state: WorkerState | None, leaves: bool) -> None:
    """Requests are held for one that wakes, and a silent one may have streams."""
    seen = [beat("w1")] + ([beat("w2", state)] if state else [beat("w2", ago_s=6.0)])
    drained = step(wants(2), seen, aims(1, running=(process("w1"), process("w2"))), NOW).drain
    assert drained == (("w2",) if leaves else ())


def test_a_restart_of_a_scaled_version_replaces_its_workers() -> None:
    """An outdated worker leaves once its successor is ready, as ever."""
    running = (process("w1", age_s=100.0), process("w2", age_s=10.0))
    catalogue = wants(1, renew_before=NOW - 50.0)
    assert step(catalogue, [beat("w1")], aims(1, running=running[:1]), NOW).start == (TINY,)
    assert step(catalogue, [beat("w1"), beat("w2")], aims(1, running=running), NOW).drain == ("w1",)


def test_targets_tell_who_sleeps_and_who_wakes() -> None:
    """Without a pool the autoscaler's word is the order."""
    running = (process("w1"), process("w2"))
    seen = [beat("w1"), beat("w2", WorkerState.SLEEPING)]
    found = step(wants(2), seen, aims(2, running=running, slept=(WorkerId("w1"),), woken=(WorkerId("w2"),)), NOW)
    assert (found.sleep, found.wake) == (("w1",), ("w2",))


def test_a_cordoned_worker_is_offered_as_draining() -> None:
    """Gateways send it no new request and leave its streams alone; one that starts is shown as it is."""
    seen = [beat("w1"), beat("w2"), beat("w3", WorkerState.LOADING)]
    cordoned = frozenset({WorkerId("w1"), WorkerId("w3")})
    offered = replace(view(), targets={TINY: Target(version=TINY, workers=3, cordoned=cordoned)}).offered(seen)
    assert [one.report.state for one in offered] == [WorkerState.DRAINING, WorkerState.READY, WorkerState.LOADING]
    assert view().offered(seen) is seen
