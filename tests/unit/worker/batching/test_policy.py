"""When a batch starts, and who is in it."""

import itertools
import random
from collections import defaultdict
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.simulator.batches import Arrival, Played, play
from penstock.domain.serving.report import Trigger
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.compute import Computes
from penstock.worker.batching.items import Item, Key, Waiting
from penstock.worker.batching.policy import DeviceState, Policy
from penstock.worker.batching.settings import BatchSettings, Caps, Prior
from tests.support.samples.batches import KEY, affine, item

IDLE, BUSY = DeviceState(0, 0.0, 0.0), DeviceState(1, 0.0, 1.0)
DEVICE = affine()
SETTINGS = BatchSettings(
    max_items=8,
    slo_s=0.2,
    margin_s=0.002,
    interactive=Caps(max_wait_s=0.1),
    offline=Caps(max_items=4, max_wait_s=0.4),
    prior=Prior(fixed_s=DEVICE.fixed_s, per_item_s=DEVICE.per_item_s),
)
STEP = 1e-6


def waiting(policy: Policy, *items: Item, at: float = 0.0) -> list[Waiting]:
    """Let these wait since a second."""
    found = [Waiting(one, at) for one in items]
    for one in found:
        policy.come(one)
    return found


def a_policy(**changes: object) -> Policy:
    settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    computes = Computes(settings.prior, settings.max_items)
    for _ in range(100):
        for size in (1, settings.max_items):
            computes.learn(KEY, size, DEVICE.seconds(size), 0.0)
    return Policy(settings, computes)


def test_a_lone_request_on_an_idle_device_waits_for_nobody() -> None:
    """It starts in the moment in which it comes."""
    policy = a_policy()
    (one,) = waiting(policy, item(), at=5.0)
    batch = policy.decide(5.0, IDLE).batch
    assert batch is not None
    assert (batch.taken, batch.trigger) == ((one,), Trigger.IDLE)
    assert len(policy) == 0


def test_who_comes_often_is_worth_a_wait_no_longer_than_it_gains() -> None:
    """With an item each millisecond an idle device waits for the next one, and no longer than that gains something."""
    policy = a_policy()
    for number in range(2):
        waiting(policy, item(), at=number * 1e-3)
    gain_s = policy.gain_s(KEY, 2, 1e-3)
    decision = policy.decide(1e-3, IDLE)
    assert decision.batch is None
    assert decision.look_at == pytest.approx(1e-3 + gain_s)
    assert policy.decide(decision.look_at + STEP, IDLE).batch is not None


def test_nobody_waits_for_the_company_of_those_who_leave() -> None:
    """A flood of requests that are cancelled while they wait made each other one wait its whole cap."""
    policy = a_policy()
    for number in range(32):
        (gone,) = waiting(policy, item(), at=number * 1e-3)
        assert policy.leave(gone)
        assert not policy.leave(gone)
    waiting(policy, item(), at=0.032)
    batch = policy.decide(0.032, IDLE).batch
    assert batch is not None
    assert batch.trigger is Trigger.IDLE


def test_a_full_batch_starts_at_once() -> None:
    """Whoever waits for more than fits would wait in vain."""
    policy = a_policy(in_flight=2)
    waiting(policy, *(item() for _ in range(9)))
    batch = policy.decide(0.0, BUSY).batch
    assert batch is not None
    assert (len(batch.taken), batch.trigger, len(policy)) == (8, Trigger.SIZE, 1)


def test_a_budget_of_tokens_bounds_a_batch_with_its_padding() -> None:
    """Three items that are padded to 100 tokens are as many as 300 tokens hold."""
    policy = a_policy(max_cost=300, in_flight=2, slo_s=0.0)
    key = replace(KEY, bucket=100)
    waiting(policy, *(item(key=key, cost=60) for _ in range(4)))
    batch = policy.decide(0.0, BUSY).batch
    assert batch is not None
    assert (len(batch.taken), batch.trigger) == (3, Trigger.BUDGET)


def test_the_earliest_deadline_starts_a_batch_in_time() -> None:
    """It starts the predicted compute and the margin before that, and not sooner."""
    policy = a_policy(in_flight=2)
    busy = DeviceState(1, 0.0, inf)
    waiting(policy, item(deadline_at=0.08), item())
    decision = policy.decide(0.0, busy)
    assert decision.batch is None
    p99 = policy._computes.p99(KEY, 2)
    assert decision.look_at == pytest.approx(0.08 - p99 - SETTINGS.margin_s)
    batch = policy.decide(decision.look_at + STEP, busy).batch
    assert batch is not None
    assert batch.trigger is Trigger.DEADLINE


def test_the_window_is_what_the_promise_leaves() -> None:
    """W = SLO - p99 of compute - margin; less on a device that slows down, and never more than the cap."""
    policy = a_policy(slo_s=0.05)
    p99 = policy._computes.p99(KEY, 4)
    assert policy.window_s(KEY, 4) == pytest.approx(0.05 - p99 - SETTINGS.margin_s)
    for _ in range(200):
        policy._computes.learn(KEY, 4, 2 * DEVICE.seconds(4), 10.0)
    assert policy.window_s(KEY, 4) == pytest.approx(0.05 - 2 * p99 - SETTINGS.margin_s, rel=0.15)
    assert a_policy().window_s(KEY, 4) == SETTINGS.interactive.max_wait_s
    assert a_policy(slo_s=0.001).window_s(KEY, 4) == 0.0


def test_offline_items_fill_what_interactive_ones_leave() -> None:
    """They go last, and no more of them than their cap; one that has waited its cap goes with the first."""
    policy = a_policy(in_flight=2)
    old = waiting(policy, item("batch", standing=Standing.BATCH))
    waiting(policy, *(item("batch", standing=Standing.BATCH) for _ in range(6)), at=0.3)
    people = waiting(policy, *(item() for _ in range(5)), at=0.4)
    batch = policy.decide(0.5, BUSY).batch
    assert batch is not None
    assert batch.taken[:6] == (*old, *people)
    assert [one.is_offline for one in batch.taken] == [True, *[False] * 5, True, True]
    assert len(policy) == 4


def test_no_batch_of_offline_items_exceeds_their_cap() -> None:
    """Where nobody else waits they are as many as they may be, so that who comes next waits for no more."""
    policy = a_policy()
    waiting(policy, *(item(standing=Standing.BATCH) for _ in range(6)))
    batch = policy.decide(0.0, IDLE).batch
    assert batch is not None
    assert (len(batch.taken), batch.trigger) == (4, Trigger.SIZE)


def test_the_second_batch_in_flight_starts_shortly_before_the_first_ends() -> None:
    """Its copy goes beside the first one's compute; sooner it would only keep others out."""
    policy = a_policy(in_flight=2, ahead_s=0.004)
    waiting(policy, item())
    decision = policy.decide(0.0, DeviceState(1, 0.0, 0.05))
    assert decision.batch is None
    assert decision.look_at == pytest.approx(0.046)
    assert policy.decide(0.046 + STEP, DeviceState(1, 0.0, 0.05)).batch is not None


def test_who_cannot_be_in_time_costs_nobody_else_the_deadline() -> None:
    """Of eight with one that is lost, seven are in time and one is told so; where all are lost, all are tried."""
    policy = a_policy()
    lost = waiting(policy, item(deadline_at=0.001))
    others = waiting(policy, *(item(deadline_at=0.026) for _ in range(7)))
    batch = policy.decide(0.0, IDLE).batch
    assert batch is not None
    assert (batch.taken, batch.late) == (tuple(others), tuple(lost))
    hopeless = waiting(policy, *(item(deadline_at=0.001) for _ in range(2)))
    batch = policy.decide(0.0, IDLE).batch
    assert batch is not None
    assert (batch.taken, batch.late) == (tuple(hopeless), ())


def test_a_smaller_batch_saves_an_early_deadline_where_nobody_else_pays() -> None:
    """Two that are urgent go first and the others after them, as all eight together would be too late for the two."""
    policy = a_policy()
    urgent = waiting(policy, *(item(deadline_at=0.015) for _ in range(2)))
    waiting(policy, *(item(deadline_at=0.2) for _ in range(6)))
    batch = policy.decide(0.0, IDLE).batch
    assert batch is not None
    assert (batch.taken, batch.late) == (tuple(urgent), ())


def test_keys_that_nobody_uses_are_forgotten() -> None:
    """A caller that makes up keys fills no memory."""
    policy = a_policy()
    for number in range(1000):
        (one,) = waiting(policy, item(key=replace(KEY, bucket=number)))
        policy.leave(one)
    assert len(policy._groups) <= 257


# -- properties, in virtual time ---------------------------------------------------------------

KEYS = (KEY, replace(KEY, bucket=64))
_ITEMS = st.tuples(
    st.floats(0.0, 0.4),
    st.sampled_from(KEYS),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([Standing.INTERACTIVE, Standing.PAID, Standing.BATCH]),
    st.one_of(st.none(), st.floats(0.02, 0.4)),
    st.integers(1, 64),
)


@st.composite
def _traffics(draw: st.DrawFn) -> list[Arrival]:
    rows = draw(st.lists(_ITEMS, max_size=60))
    return [
        Arrival(
            at,
            item(tenant, key=key, standing=standing, cost=cost, deadline_at=0.0 if slack is None else at + slack),
        )
        for at, key, tenant, standing, slack, cost in sorted(rows, key=lambda row: row[0])
    ]


def went(arrivals: list[Arrival], in_flight: int, max_cost: int) -> Played:
    settings = replace(SETTINGS, in_flight=in_flight, max_cost=max_cost)
    return play(arrivals, settings, DEVICE)


def free_from(played: Played, at: float) -> float:
    """Return the first second from then on at which a slot was free."""
    for begin, end in sorted(played.busy):
        if begin <= at < end:
            at = end
    return at


traffic_on_devices = given(_traffics(), st.sampled_from([1, 2]), st.sampled_from([0, 256]))


@traffic_on_devices
def test_nobody_waits_beyond_its_cap(arrivals: list[Arrival], in_flight: int, max_cost: int) -> None:
    """From when an item has waited as long as its class may, no slot stays free until it starts."""
    played = went(arrivals, in_flight, max_cost)
    for batch in played.batches:
        for one in batch.taken:
            due = one.came_at + SETTINGS.caps(offline=one.is_offline).max_wait_s
            assert batch.decided_at <= free_from(played, due) + STEP


@traffic_on_devices
def test_nobody_waits_beyond_its_deadlines_slack(arrivals: list[Arrival], in_flight: int, max_cost: int) -> None:
    """From when the compute of its batch would end after its deadline, no slot stays free until it starts."""
    played = went(arrivals, in_flight, max_cost)
    for batch in played.batches:
        newest = max(one.came_at for one in batch.taken)
        for one in batch.taken:
            if one.deadline_at < inf:
                due = max(newest, one.deadline_at - batch.p99_s - SETTINGS.margin_s)
                assert batch.decided_at <= free_from(played, due) + STEP


@traffic_on_devices
def test_a_batch_is_never_mixed_in_key_and_within_its_bounds(
    arrivals: list[Arrival], in_flight: int, max_cost: int
) -> None:
    """One key, no more items and offline items than there may be, no more tokens than the budget or one item has."""
    for batch in went(arrivals, in_flight, max_cost).batches:
        assert {one.item.key for one in batch.taken} == {batch.key}
        assert len(batch.taken) <= SETTINGS.max_items
        assert sum(one.is_offline for one in batch.taken) <= SETTINGS.offline.max_items
        padded = len(batch.taken) * (batch.key.bucket or max(one.item.cost for one in batch.taken))
        assert not max_cost or padded <= max_cost or len(batch.taken) == 1


@traffic_on_devices
def test_each_item_has_one_end(arrivals: list[Arrival], in_flight: int, max_cost: int) -> None:
    """It is computed once, or told once that it is too late; none is left behind."""
    played = went(arrivals, in_flight, max_cost)
    ends = [*played.expired, *played.late, *(one for batch in played.batches for one in batch.taken)]
    assert sorted(id(one.item) for one in ends) == sorted(id(one.item) for one in arrivals)


@traffic_on_devices
def test_order_holds_within_a_tenant_and_class(arrivals: list[Arrival], in_flight: int, max_cost: int) -> None:
    """Of one key, who came first is in no later batch."""
    order: dict[tuple[Key, str, bool], list[float]] = defaultdict(list)
    for batch in sorted(went(arrivals, in_flight, max_cost).batches, key=lambda one: one.decided_at):
        for one in batch.taken:
            order[one.item.key, one.item.tenant, one.is_offline].append(one.came_at)
    assert all(came == sorted(came) for came in order.values())


@traffic_on_devices
def test_an_idle_device_waits_no_longer_than_a_wait_gains(
    arrivals: list[Arrival], in_flight: int, max_cost: int
) -> None:
    """Work conservation: with items waiting the device rests between two arrivals no longer than one item's compute."""
    played = went(arrivals, in_flight, max_cost)
    batches = sorted(played.batches, key=lambda one: one.decided_at)
    ends = [0.0, *itertools.accumulate((batch.ended_at for batch in batches), max)]
    came = sorted(one.at for one in arrivals)
    for batch, idle_since in zip(batches, ends, strict=False):
        first = min(one.came_at for one in batch.taken)
        rests_from = max([idle_since, *(at for at in came if first <= at <= batch.decided_at)])
        assert batch.decided_at - rests_from <= DEVICE.seconds(1) + STEP


def test_deadlines_with_room_are_kept() -> None:
    """At half the device's load nobody misses a deadline that leaves twice the time of a full batch."""
    chance, at, arrivals = random.Random(1), 0.0, []
    while (at := at + chance.expovariate(150.0)) < 20.0:
        arrivals.append(Arrival(at, item(deadline_at=at + 3 * DEVICE.seconds(8))))
    assert play(arrivals, SETTINGS, DEVICE).missed == 0
