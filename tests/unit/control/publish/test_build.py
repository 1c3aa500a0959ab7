"""The routing table out of catalogue and heartbeats."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.capacity.memory import worker_bytes
from penstock.control.publish.build import LOAD_EVERY_S, build
from penstock.domain.fleet.table import EMPTY, Route, RoutingTable, Share, validate
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetView, Running, Seen
from penstock.domain.fleet.worker import PhaseTiming, WorkerState
from penstock.domain.ids import Alias, TenantId, WorkerId
from penstock.domain.models.model import ModelVersion, Task, digest_of, version_id
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.tenancy.owners import Owned
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW

SILENCE_S = 15.0
make = partial(build, silence_s=SILENCE_S)
ROUTED, DEPLOYED, IDLE = things.version(seed="a"), things.version(seed="c"), things.version(seed="d")
CATALOGUE = Catalogue(
    versions=(ROUTED, DEPLOYED, IDLE),
    routes=(things.route("chat", ROUTED.id),),
    deployments=(Deployment(version=DEPLOYED.id, replicas=1), Deployment(version=IDLE.id, replicas=0)),
)
READY = things.seen(things.report("w1", ROUTED.id))


def workers(table: RoutingTable) -> list[tuple[str, WorkerState]]:
    return [(worker.id, worker.state) for version in table.versions for worker in version.workers]


def test_routed_and_deployed_versions_are_in() -> None:
    """A version stands in the table where an alias leads to it or workers of it are wanted."""
    table = validate(make(CATALOGUE, [], EMPTY, NOW))
    assert table.number == 1
    assert {version.id for version in table.versions} == {ROUTED.id, DEPLOYED.id}
    assert table.routes == CATALOGUE.routes
    entry = next(version for version in table.versions if version.id == ROUTED.id)
    assert (entry.tokenizer_sha256, entry.chat_template) == ("b" * 64, ROUTED.manifest.chat_template)


def test_the_first_table_is_published_also_where_it_is_empty() -> None:
    """Finding U3: on a new platform gateways waited for a table that nobody made, and none became ready."""
    first = make(Catalogue(), [], EMPTY, NOW)
    assert (first.number, first.versions, first.routes) == (1, (), ())
    assert make(Catalogue(), [], first, NOW + 60) is first


def test_a_workers_pools_are_in_the_table() -> None:
    """Whatever it reports; another pool is news."""
    spot, moved = (things.seen(replace(READY.report, pools=pools)) for pools in (("spot",), ("spot", "nights")))
    first = make(CATALOGUE, [spot], EMPTY, NOW)
    second = make(CATALOGUE, [moved], first, NOW)
    told = [worker.pools for table in (first, second) for version in table.versions for worker in version.workers]
    assert told == [("spot",), ("spot", "nights")]


def test_nothing_new_keeps_the_table() -> None:
    """The same catalogue and heartbeats give back the very same table."""
    first = make(CATALOGUE, [READY], EMPTY, NOW)
    again = things.seen(READY.report, NOW + 60)
    assert make(CATALOGUE, [again], first, NOW + 60) is first


def test_a_silent_worker_leaves_the_table() -> None:
    """Its silence is borne for these seconds and not longer: its engine may answer all the while."""
    first = make(CATALOGUE, [READY], EMPTY, NOW)
    assert workers(make(CATALOGUE, [READY], first, NOW + SILENCE_S - 0.1)) == [("w1", WorkerState.READY)]
    gone = make(CATALOGUE, [READY], first, NOW + SILENCE_S)
    assert (gone.number, workers(gone)) == (2, [])


@pytest.mark.parametrize("others", [0, 1, 2])
@pytest.mark.parametrize("draining", [False, True])
def test_a_silent_worker_with_a_process_stays_until_its_successor_serves(others: int, draining: bool) -> None:
    """Of two deployed workers one is silent: it stays beside one that serves, and leaves beside two or once drained."""
    two = replace(CATALOGUE, deployments=(Deployment(version=ROUTED.id, replicas=2),))
    later = NOW + 10 * SILENCE_S
    fresh = [things.seen(things.report(f"x{number}", ROUTED.id), later) for number in range(others)]
    starting = things.seen(things.report("x9", ROUTED.id, WorkerState.LOADING), later)
    view = FleetView(running=(Running(worker=WorkerId("w1"), version=ROUTED.id, started_at=NOW, draining=draining),))
    first = make(two, [READY], EMPTY, NOW)
    made = make(two, [READY, *fresh, starting], first, later, view)
    assert (("w1", WorkerState.READY) in workers(made)) is (others < 2 and not draining)


def test_a_silent_worker_leaves_if_another_version_answers_for_it() -> None:
    """Both versions of a rollout share the alias: one that stands still leaves at once, and its harm is judged."""
    shares = (Share(version=ROUTED.id, weight=5000), Share(version=DEPLOYED.id, weight=5000))
    deployments = (Deployment(version=ROUTED.id, replicas=1),)
    view = FleetView(running=(Running(worker=WorkerId("w1"), version=ROUTED.id, started_at=NOW),))
    for routes, stays in (
        ((Route(alias=Alias("a"), shares=shares),), False),
        ((Route(alias=Alias("a"), shares=shares[:1]),), True),
    ):
        wanted = replace(CATALOGUE, deployments=deployments, routes=routes)
        made = make(wanted, [READY], make(wanted, [READY], EMPTY, NOW), NOW + SILENCE_S, view)
        assert (workers(made) == [("w1", WorkerState.READY)]) is stays


@pytest.mark.parametrize("state", [WorkerState.LOADING, WorkerState.SLEEPING, WorkerState.DRAINING])
def test_a_silent_worker_that_did_not_serve_leaves(state: WorkerState) -> None:
    """No gateway can see whether its engine answers."""
    told = things.seen(things.report("w1", ROUTED.id, state))
    view = FleetView(running=(Running(worker=WorkerId("w1"), version=ROUTED.id, started_at=NOW),))
    wanted = replace(CATALOGUE, deployments=(Deployment(version=ROUTED.id, replicas=1),))
    assert workers(make(wanted, [told], make(wanted, [told], EMPTY, NOW), NOW + SILENCE_S, view)) == []


def test_the_table_says_how_long_a_start_takes() -> None:
    """It is the longest complete start that a worker has told, and stays when the workers are gone."""
    timed = things.report("w1", ROUTED.id, phases=phases(LOADING=12.0, WARMING=3.0))
    quick = things.report("w2", ROUTED.id, phases=phases(LOADING=8.0, WARMING=2.0))
    unfinished = things.report("w3", ROUTED.id, phases=phases(LOADING=90.0))
    first = make(CATALOGUE, [things.seen(one) for one in (timed, quick, unfinished)], EMPTY, NOW)
    assert starts(first) == {(ROUTED.id, 15.0)}
    assert starts(make(CATALOGUE, [], first, NOW + 900)) == {(ROUTED.id, 15.0)}


def test_a_wake_is_no_start() -> None:
    """What waking takes is told apart: whoever waits for a new worker would be told too little."""
    woken = things.report("w1", ROUTED.id, phases=phases(WAKING=2.0, WARMING=0.5))
    started = make(CATALOGUE, [things.seen(things.report("w1", ROUTED.id, phases=phases(WARMING=9.0)))], EMPTY, NOW)
    assert starts(make(CATALOGUE, [things.seen(woken)], started, NOW)) == {(ROUTED.id, 9.0)}


def test_the_table_says_apart_how_long_starting_again_takes() -> None:
    """It is the longest that a worker has told, and stays when the workers are gone."""
    told = [replace(things.report(name, ROUTED.id), restart_s=took) for name, took in (("w1", 1.4), ("w2", 2.3))]
    first = make(CATALOGUE, [things.seen(one) for one in told], EMPTY, NOW)
    assert {version.restart_s for version in first.versions if version.restart_s} == {2.3}
    later = make(CATALOGUE, [], first, NOW + 900)
    assert {version.restart_s for version in later.versions if version.restart_s} == {2.3}


def phases(**seconds: float) -> tuple[PhaseTiming, ...]:
    return tuple(PhaseTiming(phase=WorkerState[name], seconds=took) for name, took in seconds.items())


def starts(table: RoutingTable) -> set[tuple[str, float]]:
    return {(version.id, version.start_s) for version in table.versions if version.start_s}


def test_silence_while_nobody_listened_is_held_against_nobody_in_the_table() -> None:
    """A controller that comes back keeps each worker of the table for as long as it bears silence, and adds none."""
    first = make(CATALOGUE, [READY], EMPTY, NOW)
    since = NOW + 60
    listens = FleetView(since=since)
    assert make(CATALOGUE, [READY], first, since, listens) is first
    assert workers(make(CATALOGUE, [READY], first, since + SILENCE_S, listens)) == []
    assert workers(make(CATALOGUE, [READY], EMPTY, since, listens)) == []


def test_a_change_of_state_is_told_at_once() -> None:
    """Draining is published in the same instant in which it is reported."""
    first = make(CATALOGUE, [READY], EMPTY, NOW)
    draining = things.seen(things.report("w1", ROUTED.id, WorkerState.DRAINING))
    assert workers(make(CATALOGUE, [draining], first, NOW)) == [("w1", WorkerState.DRAINING)]


def test_load_is_told_at_most_once_a_second() -> None:
    """A change of load alone waits until the table is a second old."""
    first = make(CATALOGUE, [READY], EMPTY, NOW)
    busy = things.seen(things.report("w1", ROUTED.id, queued_tokens=99))
    assert make(CATALOGUE, [busy], first, NOW + LOAD_EVERY_S - 0.01) is first
    later = make(CATALOGUE, [busy], first, NOW + LOAD_EVERY_S)
    assert later.number == 2
    assert later.versions != first.versions


def test_a_clock_that_went_back_does_not_silence_the_load() -> None:
    """With the time before the last table's, a change of load is still told."""
    first = make(CATALOGUE, [READY], EMPTY, NOW)
    busy = things.seen(things.report("w1", ROUTED.id, queued_tokens=99), NOW - 100)
    assert make(CATALOGUE, [busy], first, NOW - 100).number == 2


def test_stopped_and_failed_workers_are_left_out() -> None:
    """A starting worker stands in the table without an address, a failed or stopped one does not."""
    seen = [
        things.seen(things.report("w1", ROUTED.id, WorkerState.LOADING, url="")),
        things.seen(things.report("w2", ROUTED.id, WorkerState.FAILED)),
        things.seen(things.report("w3", ROUTED.id, WorkerState.STOPPED)),
    ]
    assert workers(validate(make(CATALOGUE, seen, EMPTY, NOW))) == [("w1", WorkerState.LOADING)]


@given(st.permutations([things.seen(things.report(f"w{n}", ROUTED.id)) for n in range(5)]))
def test_the_order_of_what_comes_in_does_not_matter(seen: list[Seen]) -> None:
    """Heartbeats in any order make the same table."""
    expected = make(CATALOGUE, sorted(seen, key=lambda one: one.report.worker), EMPTY, NOW)
    assert make(CATALOGUE, seen, EMPTY, NOW) == expected


def test_rules_and_what_they_lead_to_are_in() -> None:
    """A version that only a rule names is there; a rule that leads nowhere is not, and new rules are news."""
    idle = Rule(name="idle", to=Alias(IDLE.id))
    rules = (Rule(name="lost", to=Alias("gone")), Rule(name="chat", to=Alias("chat")), idle)
    ruled = replace(CATALOGUE, autos=(Auto(alias=Alias("auto"), rules=rules),))
    first = validate(make(ruled, [], EMPTY, NOW))
    assert [rule.name for rule in first.autos[0].rules] == ["chat", "idle"]
    assert IDLE.id in {version.id for version in first.versions}
    assert make(ruled, [], first, NOW + 60) is first
    fewer = replace(ruled, autos=(Auto(alias=Alias("auto"), rules=(idle,)),))
    assert make(fewer, [], first, NOW + 0.1).autos == fewer.autos


def test_a_version_without_a_start_has_its_kinds() -> None:
    """The longest measured one of its runtime and task; its own counts as soon as there is one, and no kind's does."""
    vectors = replace(things.manifest("v"), task=Task.EMBED)
    digest = digest_of(vectors)
    other = ModelVersion(id=version_id(vectors.name, digest), digest=digest, manifest=vectors, created_at=NOW)
    on = tuple(Deployment(version=one.id, replicas=1) for one in (ROUTED, DEPLOYED, other))
    known = Catalogue(versions=(ROUTED, DEPLOYED, other), deployments=on)
    warm = (PhaseTiming(phase=WorkerState.WARMING, seconds=12.0),)
    first = make(known, [things.seen(things.report("w1", ROUTED.id, phases=warm))], EMPTY, NOW)
    starts = {one.id: (one.start_s, one.kin_start_s) for one in first.versions}
    assert starts == {ROUTED.id: (12.0, 0.0), DEPLOYED.id: (0.0, 12.0), other.id: (0.0, 0.0)}
    own = (PhaseTiming(phase=WorkerState.WARMING, seconds=5.0),)
    second = make(known, [things.seen(things.report("w2", DEPLOYED.id, phases=own))], first, NOW + 1)
    starts = {one.id: (one.start_s, one.kin_start_s) for one in second.versions}
    assert (starts[ROUTED.id], starts[DEPLOYED.id]) == ((12.0, 0.0), (5.0, 0.0))


def test_nobody_is_told_how_long_others_own_take_to_start() -> None:
    """Kin are versions for everybody, or for the same tenants: a start of one that is others' alone is no measure."""
    on = tuple(Deployment(version=one.id, replicas=1) for one in (ROUTED, DEPLOYED))
    own = (Owned(version=ROUTED.id, tenants=(TenantId("acme"),)),)
    known = Catalogue(versions=(ROUTED, DEPLOYED), deployments=on, owned=own)
    warm = (PhaseTiming(phase=WorkerState.WARMING, seconds=12.0),)
    seen = [things.seen(things.report("w1", ROUTED.id, phases=warm))]
    for owned, kin_s in ((own, 0.0), ((*own, replace(own[0], version=DEPLOYED.id)), 12.0)):
        table = make(replace(known, owned=owned), seen, EMPTY, NOW)
        assert {one.id: one.kin_start_s for one in table.versions}[DEPLOYED.id] == kin_s


def test_the_table_says_of_which_version_no_worker_is_deployed() -> None:
    """A route may lead to a version that is scaled to 0; gateways tell its callers so."""
    on = (Deployment(version=ROUTED.id, replicas=0), Deployment(version=DEPLOYED.id, replicas=1))
    known = Catalogue(versions=(ROUTED, DEPLOYED), deployments=on, routes=(things.route("a", ROUTED.id),))
    table = build(known, [], EMPTY, NOW, silence_s=SILENCE_S)
    assert {one.id: one.is_unwanted for one in table.versions} == {ROUTED.id: True, DEPLOYED.id: False}


def test_who_has_no_place_beside_pins_is_told() -> None:
    """Of what the pool has left it would need more; a pin that goes brings it back."""
    on = tuple(Deployment(version=one.id, replicas=1, pinned=one is ROUTED) for one in (ROUTED, DEPLOYED))
    known, size = Catalogue(versions=(ROUTED, DEPLOYED), deployments=on), worker_bytes(ROUTED.manifest)
    for pool_bytes, crowded in ((size, True), (2 * size, False), (0, False)):
        table = build(known, [], EMPTY, NOW, silence_s=SILENCE_S, pool_bytes=pool_bytes)
        assert {one.id: one.is_crowded_out for one in table.versions} == {ROUTED.id: False, DEPLOYED.id: crowded}
    free = replace(known, deployments=(replace(on[0], pinned=False), on[1]))
    table = build(free, [], EMPTY, NOW, silence_s=SILENCE_S, pool_bytes=size)
    assert not any(one.is_crowded_out for one in table.versions)
