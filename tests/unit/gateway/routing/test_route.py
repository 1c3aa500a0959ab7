import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import NoCapacity, Overloaded
from penstock.domain.fleet.table import RoutingTable, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.serving.report import Load
from penstock.domain.serving.request import Prepared
from penstock.domain.serving.request_record import Choice
from penstock.domain.tenancy.tenant import Plan, Priority
from penstock.gateway.calls.demand import Demand
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.circuit import CircuitSettings
from penstock.gateway.dispatch.records import FailureEvidence, ProbeResult
from penstock.gateway.routing import selection
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.load_board import BELIEVED_S, LoadBoard
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.scorers import SLACK_TOKENS, Candidate
from penstock.gateway.routing.selection import RouterSettings
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.gateways.breakers import origin
from tests.support.samples import calls
from tests.support.samples.calls import VERSION

W0, W1, W2 = (WorkerId(f"w{n}") for n in range(3))
SHORT = Prepared(prompt_tokens=20)
NOBODY: frozenset[WorkerId] = frozenset()


def worker(name: WorkerId, state: WorkerState = WorkerState.READY, *, ready_in_s: float = 0.0) -> WorkerEntry:
    """Return a worker of the table."""
    return WorkerEntry(id=name, url=f"http://{name}", state=state, ready_in_s=ready_in_s)


def version(*workers: WorkerEntry) -> VersionEntry:
    """Return the version with these workers."""
    return replace(VERSION, workers=workers)


class House:
    """A router and what it depends on."""

    def __init__(self, *of: WorkerEntry | VersionEntry, max_waiting: int = 256) -> None:
        """Take the version, or its workers."""
        self.clock = ManualClock()
        self.table = CurrentTable()
        entries = [one for one in of if isinstance(one, VersionEntry)]
        self.version = entries[0] if entries else version(*(one for one in of if isinstance(one, WorkerEntry)))
        self.breakers = Breakers(random.Random(0), CircuitSettings(jitter_ratio=0.0))
        self.table.on_change(lambda _, after: self.breakers.learn(after.table.versions, after.at))
        self.metrics = Metrics()
        self.router = WorkerRouter(
            table=self.table,
            health=self.breakers,
            clock=self.clock,
            chance=random.Random(1),
            settings=RouterSettings(max_waiting=max_waiting),
            metrics=self.metrics,
        )
        self.choices: list[Choice] = []
        self.publish(self.version)

    def publish(self, entry: VersionEntry) -> None:
        self.table.swap(
            RoutingTable(number=self.table.number + 1, made_at=0.0, versions=(entry,)), self.clock.monotonic()
        )

    def pick(self, prepared: Prepared = SHORT, tried: frozenset[WorkerId] = NOBODY) -> WorkerId:
        return self.router.pick(self.version, prepared, self.choices.append, tried).id


def test_only_ready_workers_get_work() -> None:
    """Workers that start, drain or failed are not asked."""
    others = [worker(WorkerId(s), s) for s in WorkerState if s is not WorkerState.READY]
    house = House(worker(W0), *others)
    assert {house.pick() for _ in range(20)} == {W0}


def test_pools_leave_workers_out() -> None:
    """One in none of the wished pools is never asked, tried others or not; without any there, the refusal names it."""
    pools_of = {W0: ("spot", "a"), W1: ("b",), W2: ()}
    house = House(*(replace(worker(name), pools=pools) for name, pools in pools_of.items()))

    def pick(*pools: str, tried: frozenset[WorkerId] = NOBODY) -> WorkerId:
        demand = Demand(pools=frozenset(pools))
        return house.router.pick(house.version, SHORT, house.choices.append, tried, demand).id

    assert {pick("spot") for _ in range(20)} == {W0}
    assert {pick("a", "b") for _ in range(50)} == {W0, W1}
    assert pick("a", "b", tried=frozenset({W0})) == W1
    with pytest.raises(NoCapacity) as lost:
        pick("spot", tried=frozenset({W0}))
    with pytest.raises(NoCapacity, match="for batch work: nights") as outside:
        pick("nights")
    assert (lost.value.reason, outside.value.reason) == (None, "pool")


@pytest.mark.parametrize(("of", "expected"), [(Priority.BATCH, {"spot"}), (Priority.STANDARD, set())])
def test_pools_bind_class_batch_alone(of: Priority, expected: set[str]) -> None:
    """The same tenant's live traffic goes wherever there is room."""
    assert calls.call(plan=Plan(priority=of, batch_pools="spot")).demand.pools == expected


def test_table_in_force_decides() -> None:
    """A request resolved before a swap is routed by the table in force now."""
    house = House(worker(W0))
    house.publish(version(worker(W1)))
    assert house.pick() == W1


def test_tried_workers_are_passed_over() -> None:
    """A worker this request has met is not picked again; with none left there is no capacity."""
    house = House(worker(W0), worker(W1))
    assert house.pick(tried=frozenset({W0})) == W1
    with pytest.raises(NoCapacity):
        house.pick(tried=frozenset({W0, W1}))


@pytest.mark.parametrize(
    ("starting", "start_s", "wait"),
    [
        ([], 0.0, 20.0),
        ([], 17.0, 19.0),
        ([0.0], 17.0, 19.0),
        ([12.0, 7.5], 17.0, 7.5),
        ([0.2], 17.0, 1.0),
        ([500.0], 0.0, 60.0),
    ],
)
def test_no_capacity_says_how_long(starting: list[float], start_s: float, wait: float) -> None:
    """The wait is the soonest start, else what a start of this version takes, else a stated default; within bounds."""
    workers = (worker(WorkerId(f"s{n}"), WorkerState.LOADING, ready_in_s=s) for n, s in enumerate(starting))
    house = House(replace(version(*workers), start_s=start_s))
    with pytest.raises(NoCapacity) as caught:
        house.pick()
    assert caught.value.retry_after_s == wait


def test_a_version_that_waits_for_its_first_worker_tells_a_whole_start() -> None:
    """How quick it would be to start a lost one again says nothing where none is there to be lost."""
    house = House(replace(version(), start_s=30.0, restart_s=1.5))
    with pytest.raises(NoCapacity) as caught:
        house.pick()
    assert caught.value.retry_after_s == 32.0


@pytest.mark.parametrize(("start_s", "kin_s", "wait"), [(0.0, 0.0, 20.0), (0.0, 8.0, 10.0), (30.0, 8.0, 32.0)])
def test_a_first_start_is_told_by_its_kind(start_s: float, kin_s: float, wait: float) -> None:
    """What starts of its kind took, where it never had one; where nobody's was measured, the stated default."""
    house = House(replace(version(), start_s=start_s, kin_start_s=kin_s))
    with pytest.raises(NoCapacity) as caught:
        house.pick()
    assert caught.value.retry_after_s == wait


def test_who_can_not_start_beside_pinned_ones_says_so() -> None:
    """When, nobody knows; one that starts already has its place."""
    starting = worker(WorkerId("s"), WorkerState.LOADING, ready_in_s=4.0)
    for workers, reason, wait in (((), "pool_pinned", None), ((starting,), None, 4.0)):
        house = House(replace(version(*workers), start_s=3.0, is_crowded_out=True))
        with pytest.raises(NoCapacity) as caught:
            house.pick()
        assert (caught.value.reason, caught.value.retry_after_s) == (reason, wait)


def test_a_version_that_is_scaled_to_0_promises_no_start() -> None:
    """Its callers were told to come back in a minute, although nothing starts before an operator scales it."""
    house = House(replace(version(), start_s=30.0, is_unwanted=True))
    with pytest.raises(NoCapacity, match="no worker of this model is deployed") as caught:
        house.pick()
    assert caught.value.retry_after_s is None
    house = House(replace(version(worker(W0, WorkerState.LOADING, ready_in_s=4.0)), is_unwanted=True))
    with pytest.raises(NoCapacity) as caught:
        house.pick()
    assert caught.value.retry_after_s == 4.0


def test_the_only_worker_that_was_met_and_lost_is_started_again_soon() -> None:
    """A caller whose worker was killed hears of the quick start from the parent that has the imports done."""
    house = House(replace(version(worker(W0)), start_s=30.0, restart_s=1.5))
    with pytest.raises(NoCapacity) as caught:
        house.pick(tried=frozenset({W0}))
    assert caught.value.retry_after_s == 3.5


@pytest.mark.parametrize(("restart_s", "wait"), [(0.0, 19.0), (1.5, 3.5)])
def test_a_version_nobody_reaches_is_refused_early_with_its_start_time(restart_s: float, wait: float) -> None:
    """Its table still says ready: the first request finds out, the next ones hear at once how long a start takes."""
    house = House(replace(version(worker(W0)), start_s=17.0, restart_s=restart_s))
    assert house.pick() == W0
    house.breakers.failed(W0, FailureEvidence.CLOSED, origin(), 0.0)
    with pytest.raises(NoCapacity) as caught:
        house.pick()
    assert caught.value.retry_after_s == wait
    (probe,) = house.breakers.due(0.5)
    house.breakers.judged(probe, ProbeResult.PASSED, 0.5)
    assert house.pick() == W0


def test_a_version_that_fails_everywhere_says_when_it_is_tried_again() -> None:
    """Where connections are taken and everything fails, the wait is the time to the next probe."""
    house = House(worker(W0))
    house.breakers.failed(W0, FailureEvidence.ANSWERED, origin(), 0.0)
    assert house.pick() == W0
    (probe,) = house.breakers.due(0.0)
    house.breakers.judged(probe, ProbeResult.FAILED, 0.0)
    with pytest.raises(NoCapacity, match="every worker of this model fails") as caught:
        house.pick()
    assert caught.value.retry_after_s == 1.0


def test_full_workers_say_how_long_by_their_rate() -> None:
    """With every queue full the wait follows from queue and drain rate."""
    house = House(worker(W0), max_waiting=4)
    house.router.heard(W0, Load(waiting=1, queued_tokens=10_000))
    house.clock.advance(5.0)
    house.router.heard(W0, Load(waiting=9, queued_tokens=5_000))
    with pytest.raises(Overloaded) as caught:
        house.pick()
    wait = caught.value.retry_after_s
    assert wait is not None
    assert 2.0 < wait < 6.0


def test_ejected_workers_are_left_alone_but_never_all() -> None:
    """A broken worker is avoided; if it is the only one it is asked all the same."""
    house = House(worker(W0), worker(W1))
    house.breakers.failed(W0, FailureEvidence.CLOSED, origin(), 0.0)
    assert {house.pick() for _ in range(20)} == {W1}
    assert house.pick(tried=frozenset({W1})) == W0


def test_less_work_wins() -> None:
    """The worker with less work before it is chosen."""
    house = House(worker(W0), worker(W1))
    house.router.heard(W0, Load(running=8, queued_tokens=3_000))
    house.router.heard(W1, Load(running=1, queued_tokens=100))
    assert {house.pick() for _ in range(10)} == {W1}


def test_own_dispatches_count_before_the_next_report() -> None:
    """Between two reports the work this gateway sent itself is counted: bursts spread."""
    house = House(worker(W0), worker(W1), worker(W2))
    got: Counter[WorkerId] = Counter()
    for _ in range(30):
        chosen = house.pick()
        house.router.dispatched(chosen, 500)
        got[chosen] += 1
    assert max(got.values()) - min(got.values()) <= 2


def test_a_pick_is_noted_with_what_told_against_the_others() -> None:
    """The note has who was compared, with scores and what they are made of, best first."""
    house = House(worker(W0), worker(W1), worker(W2, WorkerState.DRAINING))
    house.router.heard(W0, Load(queued_tokens=4_000, kv_used_ratio=0.5))
    assert house.pick() == W1
    (choice,) = house.choices
    assert (choice.worker, choice.serving, choice.met_before, choice.compared) == (W1, 2, 0, 2)
    assert [(one.worker, one.work_tokens, one.kv_used_ratio) for one in choice.best] == [(W1, 0, 0), (W0, 4_000, 0.5)]
    assert choice.best[0].score is not None
    assert choice.best[1].score is not None
    assert choice.best[0].score > choice.best[1].score


def test_a_pick_without_a_choice_has_no_score() -> None:
    """Where one alone could be asked, nothing was compared."""
    house = House(worker(W0), worker(W1))
    house.pick(tried=frozenset({W0}))
    (choice,) = house.choices
    assert (choice.met_before, choice.compared, choice.best[0].score) == (1, 1, None)


def test_a_note_keeps_the_best_of_many_and_the_chosen_one() -> None:
    """Of many that were compared few are noted, best first, and the chosen one is always among them."""
    among = [Candidate(worker(WorkerId(f"w{n}")), 0.0) for n in range(20)]
    scores = [n / 20 for n in range(20)]
    noted = selection.recorded(W0, among, scores, serving=20, met=0)
    assert [one.worker for one in noted.best] == ["w19", "w18", "w17", "w16", "w15", "w0"]
    assert noted.compared == 20


def test_equal_workers_share_by_chance() -> None:
    """Nobody is preferred among equals."""
    house = House(worker(W0), worker(W1))
    got = Counter(house.pick() for _ in range(400))
    assert 140 < got[W0] < 260


def test_old_reports_fade() -> None:
    """A worker that looked busy is tried again after a while without news."""
    house = House(worker(W0), worker(W1))
    house.router.heard(W0, Load(queued_tokens=50_000))
    assert house.pick() == W1
    house.clock.advance(30.0)
    assert {house.pick() for _ in range(50)} == {W0, W1}


def test_a_rush_between_two_tables_shuts_nobody_out_for_ever() -> None:
    """Its last word was a full queue, and no table came since: the worker is asked again, and nobody waits there."""
    house = House(worker(W0), max_waiting=4)
    house.router.heard(W0, Load(waiting=9, wait_s=30.0))
    with pytest.raises(Overloaded):
        house.pick()
    house.clock.advance(BELIEVED_S + 0.1)
    assert house.pick() == W0
    assert house.router.wait_s(house.version) == 0.0


def test_what_a_table_said_long_ago_shuts_nobody_out() -> None:
    """The controller is away since; a table that is new is believed."""
    busy = Load(waiting=9, wait_s=30.0)
    house = House(replace(worker(W0), load=busy), max_waiting=4)
    with pytest.raises(Overloaded):
        house.pick()
    house.clock.advance(BELIEVED_S + 0.1)
    assert house.pick() == W0
    house.publish(version(replace(worker(W0), load=replace(busy, waiting=3))))
    assert house.router.wait_s(house.version) == 30.0


def test_prefix_goes_where_it_is_cached() -> None:
    """A prompt that shares its beginning with an earlier one goes to the same worker."""
    house = House(*(worker(WorkerId(f"w{n}")) for n in range(8)))
    prompt = Prepared(prompt_tokens=1_000, blocks=tuple(range(60)))
    first = house.pick(prompt)
    assert {house.pick(Prepared(prompt_tokens=1_000, blocks=(*range(59), 99))) for _ in range(20)} == {first}


def test_hot_prefix_spills_over() -> None:
    """One prefix can't overload a worker: beyond the slack others take it, and then hold it too."""
    house = House(worker(W0), worker(W1), worker(W2))
    prompt = Prepared(prompt_tokens=1_600, blocks=tuple(range(100)))
    work: Counter[WorkerId] = Counter()
    for _ in range(90):
        chosen = house.pick(prompt)
        house.router.dispatched(chosen, 1_600)
        work[chosen] += 1_600
    assert max(work.values()) - min(work.values()) <= SLACK_TOKENS + 2 * 1_600


def test_prefix_blocks_are_counted() -> None:
    """The metric tells how many blocks the chosen worker probably holds."""
    house = House(worker(W0), worker(W1))
    prompt = Prepared(prompt_tokens=100, blocks=(1, 2, 3))
    house.pick(prompt)
    house.pick(prompt)
    text = house.metrics.exposition().decode()
    assert 'penstock_prefix_blocks_total{model="toy",state="held"} 3.0' in text
    assert 'penstock_prefix_blocks_total{model="toy",state="new"} 3.0' in text


def test_nothing_is_kept_of_what_left() -> None:
    """Loads and prefixes of workers and versions that left the table are forgotten."""
    house = House(worker(W0), worker(W1))
    house.pick(Prepared(prompt_tokens=100, blocks=(1, 2, 3)))
    house.router.heard(W0, Load(queued_tokens=9))
    house.table.swap(RoutingTable(number=99, made_at=0.0), 1.0)
    assert not house.router._indexes
    assert house.router._board.seen(W0, Load(), 0.0, 0.0) == (Load(), 0.0)


@pytest.mark.parametrize(("pace", "share"), [(1000.0, 0.5), (700.0, 0.5), (150.0, 0.0)])
def test_an_idle_worker_that_is_slow_gets_no_request(pace: float, share: float) -> None:
    """The request's own tokens take longer there; paces that are nearly alike are equal."""
    loads = (Load(pace_per_s=1000.0), Load(pace_per_s=pace))
    house = House(*(replace(worker(name), load=load) for name, load in zip((W0, W1), loads, strict=True)))
    picked = Counter(house.pick() for _ in range(200))
    assert picked[W1] / 200 == pytest.approx(share, abs=0.15 * bool(share))


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 5_000), st.booleans()), max_size=40))
def test_board_is_never_negative(events: list[tuple[float, int, bool]]) -> None:
    """Whatever comes in whatever order, work stays sensible."""
    board, now = LoadBoard(), 0.0
    for passed, tokens, is_report in events:
        now += passed
        if is_report:
            board.heard(W0, Load(queued_tokens=tokens), now)
        else:
            board.dispatched(W0, tokens, now)
        assert board.seen(W0, Load(), 0.0, now).work_tokens >= 0.0
