"""Circuits of workers, zones and versions: what opens them, what closes them, and what never does."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.gateway.dispatch.records import Change, FailureEvidence, Level, ProbeResult, Why
from tests.support.gateways.breakers import Room, origin, version
from tests.support.samples.calls import VERSION

MANY = ("acme", "shop", "forum", "bank")


def fails(_: WorkerId) -> ProbeResult:
    """Every worker fails its probe."""
    return ProbeResult.FAILED


# -- suspicion and verdict ------------------------------------------------------------------


def test_an_answered_error_is_a_suspicion_and_the_probe_decides() -> None:
    """An engine's 500 opens nothing; the platform asks, and opens the circuit where its own request fails too."""
    room = Room(version({"a": 2}))
    bad, other = room.ids
    room.fail(bad, 0.0)
    room.fail(other, 0.0)
    assert not room.told
    assert room.probe(0.0, lambda one: ProbeResult.FAILED if one == bad else ProbeResult.PASSED) == [bad, other]
    assert room.told == [Change(level=Level.WORKER, name=bad, is_open=True, reason="probe failed", version=VERSION.id)]
    assert room.out(0.1) == {bad}


def test_an_acquittal_charges_the_tenants_shape() -> None:
    """Where the probe passes, the same tenant's same shape raises no suspicion for a while; another shape does."""
    room = Room(version({"a": 1}))
    (worker,) = room.ids
    room.fail(worker, 0.0)
    room.probe(0.0)
    assert not room.breakers.failed(worker, FailureEvidence.ANSWERED, origin(), 5.0)
    assert room.breakers.failed(worker, FailureEvidence.ANSWERED, origin(shape="tools"), 5.0)
    assert room.breakers.failed(worker, FailureEvidence.ANSWERED, origin("shop"), 5.0)
    assert room.breakers.failed(worker, FailureEvidence.ANSWERED, origin(), 11.0)


def test_an_answer_to_the_same_shape_lifts_the_charge() -> None:
    """A tenant whose shape was answered is believed again at once."""
    room = Room(version({"a": 1}))
    (worker,) = room.ids
    room.fail(worker, 0.0)
    room.probe(0.0)
    room.breakers.charges.clear(origin())
    assert room.breakers.failed(worker, FailureEvidence.ANSWERED, origin(), 0.1)


def test_a_tenant_that_varies_its_shapes_is_charged_as_a_whole() -> None:
    """After a few shapes of one tenant the platform asks for none of its errors; others' still make it ask."""
    room = Room(version({"a": 1}))
    (worker,) = room.ids
    for n in range(40):
        room.fail(worker, n * 0.1, who=origin(shape=f"shape {n}"))
        room.probe(n * 0.1)
    assert len(room.asked) <= 5
    room.fail(worker, 6.0, who=origin("shop"))
    assert room.probe(6.0) == [worker]


def test_one_probe_at_a_time_and_a_second_between() -> None:
    """Suspicions cost one probe a second and worker, however many there are."""
    room = Room(version({"a": 1}))
    (worker,) = room.ids
    for n in range(100):
        room.fail(worker, n * 0.05, who=origin(f"tenant {n}"))
        if n % 3 == 0:
            room.probe(n * 0.05)
    assert 4 <= len(room.asked) <= 6


def test_a_broken_connection_is_asked_about_at_once() -> None:
    """A worker that broke a connection is passed over and asked; a refusal opens it, an answer brings it back."""
    room = Room(version({"a": 2}))
    gone, lives = room.ids
    room.fail(gone, 0.0, FailureEvidence.BROKEN)
    assert room.out(0.0) == {gone}
    room.probe(0.0, lambda _: ProbeResult.CLOSED)
    assert room.opened(Level.WORKER) == [gone]
    room.fail(lives, 0.0, FailureEvidence.BROKEN)
    room.probe(0.0)
    assert room.out(0.0) == {gone}


def test_a_full_engine_is_acquitted() -> None:
    """A probe that waits behind others' work in an engine that works opens nothing, and charges nobody."""
    room = Room(version({"a": 1}))
    (worker,) = room.ids
    room.fail(worker, 0.0, FailureEvidence.SILENT)
    room.fail(worker, 0.0)
    room.probe(0.0, lambda _: ProbeResult.BUSY)
    assert not room.told
    assert not room.breakers.charges


def test_a_refused_connection_opens_at_once() -> None:
    """Nobody listens: one is proof, whoever's request met it."""
    room = Room(version({"a": 2}))
    room.lose("t-a0")
    assert room.out(0.0) == {"t-a0"}
    assert room.told[0].reason == "no connection"


# -- half-open --------------------------------------------------------------------------------


def test_only_the_platforms_probe_closes_a_circuit() -> None:
    """No caller is sent to an open worker, nor does a late answer close it: a probe does, when its time has come."""
    room = Room(version({"a": 2}))
    worker = room.ids[0]
    room.lose("t-a0")
    room.breakers.succeeded(worker, 0.1)
    assert room.probe(0.9) == []
    assert room.out(5.0) == {worker}
    assert room.probe(5.0) == [worker]
    assert room.asked[0].why is Why.HALF_OPEN
    assert room.out(5.0) == set()


def test_open_time_doubles_with_each_failed_probe_and_is_bounded() -> None:
    """A worker that stays away is asked more and more seldom."""
    room = Room(version({"a": 2}))
    room.lose("t-a0")
    now, asked_at = 0.0, []
    while now < 40.0:
        if room.probe(now, fails):
            asked_at.append(now)
        now += 0.25
    waits = [after - before for before, after in zip([0.0, *asked_at], asked_at, strict=False)]
    assert waits[:5] == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_failures_while_open_change_nothing() -> None:
    """Requests that were under way when it opened don't prolong it."""
    room = Room(version({"a": 2}))
    worker = room.ids[0]
    for _ in range(10):
        room.lose("t-a0")
        room.fail(worker, 0.5, FailureEvidence.BROKEN)
    assert room.probe(1.0) == [worker]
    assert not room.out(1.0)


def test_next_due_is_when_somebody_is_to_be_asked() -> None:
    """The prober sleeps until then, and for ever where all is well."""
    room = Room(version({"a": 2}))
    assert room.breakers.next_due_at() == float("inf")
    room.lose("t-a0")
    assert room.breakers.next_due_at() == 1.0
    room.fail(room.ids[1], 0.5)
    assert room.breakers.next_due_at() <= 0.5


# -- the table --------------------------------------------------------------------------------


def test_a_started_again_worker_begins_anew() -> None:
    """A worker that leaves readiness and comes back is asked at once, and its version with it."""
    entry = version({"a": 1})
    room = Room(entry)
    room.lose("t-")
    room.breakers.learn([version({"a": 1}, state=WorkerState.LOADING)], 0.1)
    room.breakers.learn([entry], 0.3)
    assert room.breakers.shut_for_s(VERSION.id, 0.4) == 0.0
    assert not room.breakers.known()


def test_a_probe_of_the_worker_before_says_nothing_of_the_one_after() -> None:
    """A question that was under way when the worker was started again is no evidence."""
    entry = version({"a": 1})
    room = Room(entry)
    room.fail(room.ids[0], 0.0)
    (probe,) = room.breakers.due(0.0)
    room.breakers.learn([version({"a": 1}, state=WorkerState.LOADING)], 0.1)
    room.breakers.learn([entry], 0.3)
    room.breakers.judged(probe, ProbeResult.FAILED, 0.4)
    assert not room.told


def test_what_left_the_table_is_forgotten() -> None:
    """Workers, zones and versions that left leave nothing behind, and their circuits are told closed."""
    room = Room(version({"a": 2, "b": 1}))
    room.lose("t-")
    room.breakers.learn([], 1.0)
    assert not room.breakers.known()
    assert room.breakers.next_due_at() == float("inf")
    assert sum(change.is_open for change in room.told) == len(room.told) / 2


def test_who_is_well_for_long_has_no_record() -> None:
    """A circuit that has been closed for long is forgotten, and so is its open time."""
    room = Room(version({"a": 1}))
    room.lose("t-")
    room.probe(1.0)
    room.breakers.suspect(frozenset(), 2.0)
    assert room.breakers.known()
    room.breakers.suspect(frozenset(), 100.0)
    assert not room.breakers.known()


def test_stalled_workers_are_passed_over_until_they_have_answered() -> None:
    """Who seems to stand still gets nothing new before a probe has passed; if all do, all are asked."""
    room = Room(version({"a": 2}))
    room.breakers.suspect(frozenset(room.ids[:1]), 0.0)
    assert room.out(0.0) == {room.ids[0]}
    assert room.probe(0.0) == room.ids[:1]
    assert room.out(0.0) == set()
    room.breakers.suspect(frozenset(room.ids), 1.0)
    assert room.out(1.0) == {room.ids[1]}
    room.probe(1.0, fails)
    assert room.opened(Level.WORKER) == [room.ids[1]]


# -- whatever happens -------------------------------------------------------------------------

_SAID = st.sampled_from([FailureEvidence.ANSWERED, FailureEvidence.BROKEN, FailureEvidence.SILENT])
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fail", "fail", "ok", "probe", "wait", "look"]),
        _SAID,
        st.integers(0, 7),
        st.integers(0, 5),
        st.floats(0.0, 3.0),
    ),
    max_size=150,
)


@given(_STEPS, st.integers(1, 4), st.integers(0, 4))
def test_no_number_of_tenants_shuts_anything_whose_probe_passes(
    steps: list[tuple[str, FailureEvidence, int, int, float]], in_a: int, in_b: int
) -> None:
    """No sequence of callers' requests, of any shapes and ends short of a lost worker, opens any circuit."""
    room, now = Room(version({"a": in_a, "b": in_b})), 0.0
    for what, evidence, index, shape, seconds in steps:
        worker, who = room.ids[index % len(room.ids)], origin(MANY[index % len(MANY)], f"shape {shape}")
        if what == "wait":
            now += seconds
        elif what == "probe":
            room.probe(now)
        elif what == "look":
            room.breakers.suspect(frozenset({worker} if shape > 2 else ()), now)
        elif what == "ok":
            room.breakers.succeeded(worker, now)
            room.breakers.charges.clear(who)
        else:
            room.fail(worker, now, evidence, who)
        assert room.breakers.shut_for_s(VERSION.id, now) == 0.0
    assert not room.told
    room.probe(now + 10.0)
    assert not room.out(now + 10.0)


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["fail", "closed", "ok", "wait", "probe", "probe fails"]),
        _SAID,
        st.integers(0, 7),
        st.floats(0.0, 3.0),
    ),
    max_size=120,
)


@given(_EVENTS, st.integers(1, 4), st.integers(0, 4))
def test_bounds_hold_whatever_happens(
    events: list[tuple[str, FailureEvidence, int, float]], in_a: int, in_b: int
) -> None:
    """Never everybody is ejected; a version is shut only with every worker proven down; what opens is told closed."""
    room, now, proven = Room(version({"a": in_a, "b": in_b})), 0.0, set[WorkerId]()
    for what, evidence, index, seconds in events:
        worker, who = room.ids[index % len(room.ids)], origin(f"tenant {index}", f"shape {index % 3}")
        if what == "wait":
            now += seconds
        elif what == "ok":
            room.breakers.succeeded(worker, now)
        elif what == "closed":
            proven.add(worker)
            room.fail(worker, now, FailureEvidence.CLOSED, who)
        elif what == "fail":
            room.fail(worker, now, evidence, who)
        else:
            finding = ProbeResult.FAILED if what == "probe fails" else ProbeResult.PASSED
            asked = room.probe(now, lambda _, finding=finding: finding)  # type: ignore[misc]
            proven = proven.union(asked) if finding is ProbeResult.FAILED else proven
        assert len(room.out(now)) < len(room.ids)
        if room.breakers.shut_for_s(VERSION.id, now):
            assert proven == set(room.ids)
    states: dict[tuple[Level, str], bool] = {}
    for change in room.told:
        assert states.get((change.level, change.name), False) is not change.is_open
        states[change.level, change.name] = change.is_open


def test_three_tenants_eject_no_worker_whose_probe_passes() -> None:
    """Three free accounts that send what engines fail on to one worker had it ejected within two seconds."""
    room, now = Room(version({"a": 4})), 0.0
    while (now := now + 0.5) < 60.0:
        for tenant in MANY[:3]:
            room.fail(room.ids[0], now, who=origin(tenant, f"shape {now % 3}"))
        room.probe(now)
    assert not room.told
