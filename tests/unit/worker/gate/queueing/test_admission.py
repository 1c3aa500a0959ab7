"""The queue as a whole: everybody hears exactly once, nothing leaks, floods stay their own problem."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.constants import HEADROOM
from penstock.worker.gate.queueing.fair_queue import Bounds
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SIZE = EngineSize(max_seqs=4, kv_blocks=400, block_size=16, watermark=0.0, prefill_tokens=10_000)


WORK = Work(
    request=RequestId("r"),
    tenant=TenantId("t"),
    standing=Standing.INTERACTIVE,
    weight=1.0,
    prompt_tokens=100,
    expected_output_tokens=50,
)


def a_queue(bounds: Bounds | None = None) -> AdmissionQueue:
    return AdmissionQueue(SIZE, bounds=bounds, pace=1000.0)


@dataclass
class House:
    """A queue and what it told whom."""

    queue: AdmissionQueue = field(default_factory=a_queue)
    inside: list[str] = field(default_factory=list)
    shed: list[tuple[str, Shed, float]] = field(default_factory=list)

    def arrive(self, name: str, tenant: str = "t", *, now: float = 0.0, **fields: Any) -> None:  # noqa: ANN401  any field
        """Bring one request to the queue."""
        work = replace(WORK, request=RequestId(name), tenant=TenantId(tenant), **fields)
        self.queue.arrive(
            work, now, lambda: self.inside.append(name), lambda why, wait_s: self.shed.append((name, why, wait_s))
        )

    def leave(self, name: str, now: float = 1.0) -> None:
        """End one request."""
        self.queue.leave(RequestId(name), now)


def test_an_empty_engine_takes_a_request_at_once() -> None:
    """Without contention there is no queueing delay at all."""
    house = House()
    house.arrive("r")
    assert house.inside == ["r"]


def test_the_engine_never_gets_more_than_it_has_seats() -> None:
    """Whatever is beyond the slots waits here, not in the engine's own queue."""
    house = House()
    for i in range(20):
        house.arrive(f"r{i}")
    assert len(house.inside) == SIZE.max_seqs
    house.leave("r0")
    assert len(house.inside) == SIZE.max_seqs + 1


def test_beside_another_tenant_a_flood_leaves_it_a_free_seat() -> None:
    """A tenant that comes back within the activity window finds a slot without waiting for the flood's answers."""
    house = House()
    house.arrive("v0", "victim")
    house.leave("v0")
    for i in range(50):
        house.arrive(f"f{i}", "flood", now=2.0)
    house.arrive("v1", "victim", now=3.0)
    assert house.inside == ["v0", "f0", "f1", "f2", "v1"]


def test_alone_again_a_tenant_fills_the_engine() -> None:
    """Slots kept for a tenant that never came back are given away after the activity window."""
    house = House()
    house.arrive("v0", "victim")
    house.leave("v0")
    for i in range(10):
        house.arrive(f"f{i}", "flood", now=2.0)
    house.leave("f0", now=60.0)
    assert len(house.inside) == 1 + 1 + SIZE.max_seqs


OF_ONE, OF_MANY = (lambda i: "flood"), (lambda i: f"t{i}")


@pytest.mark.parametrize(
    ("whose", "limits", "is_own"),
    [
        (OF_ONE, {"start_by": 1.0}, True),
        (OF_ONE, {"deadline_at": 5.0}, True),
        (OF_MANY, {"start_by": 1.0}, False),
        (OF_MANY, {"deadline_at": 5.0}, False),
    ],
)
def test_a_queue_that_is_too_long_is_its_tenants_own_where_the_others_alone_would_be_none(
    whose: Callable[[int], str], limits: dict[str, float], is_own: bool
) -> None:
    """One tenant's flood is no lack of capacity; as much work of many is, though each has next to nothing waiting."""
    house = House()
    for i in range(200):
        house.arrive(f"r{i}", whose(i), **limits)
    assert house.shed
    one = replace(WORK, request=RequestId("one"), tenant=TenantId(whose(0)), **limits)  # type: ignore[arg-type]
    assert house.queue.is_own(one, 0.0) is is_own


def test_a_tenants_expected_retries_are_its_own() -> None:
    """A flood that comes back as told has work before it that no other tenant sent."""
    house = House()
    for i in range(200):
        house.arrive(f"r{i}", "flood", start_by=1.0)
    one = replace(WORK, request=RequestId("one"), tenant=TenantId("flood"), start_by=1.0)
    assert house.queue.forecast.retries_s(one, 0.0)
    pace, mean = house.queue.forecast.pace.per_s, house.queue.slots.mean_cost
    just = replace(one, start_by=1.3 * mean / pace)
    assert house.queue.is_own(just, 0.0)


@pytest.mark.parametrize(
    ("bounds", "who", "is_own"),
    [
        (Bounds(tenant_requests=3), "flood", True),
        (Bounds(total_requests=8), "flood", True),
        (Bounds(total_requests=8), "another", False),
    ],
)
def test_a_full_queue_is_the_doing_of_who_fills_it(bounds: Bounds, who: str, is_own: bool) -> None:
    """Who has as much waiting as one tenant may, or has filled the whole, is in its own way; nobody else is."""
    house = House(a_queue(bounds))
    for i in range(40):
        house.arrive(f"r{i}", "flood" if i % 5 else f"t{i}")
    assert {why for _, why, _ in house.shed} == {Shed.FULL}
    assert house.queue.is_own(replace(WORK, tenant=TenantId(who)), 0.0) is is_own


def test_a_hopeless_deadline_is_refused_at_once() -> None:
    """What can't be reached at the measured pace is not queued, and hears when it could be."""
    house = House()
    for i in range(30):
        house.arrive(f"r{i}")
    house.arrive("late", deadline_at=1.0)
    ((name, why, wait_s),) = house.shed
    assert (name, why) == ("late", Shed.LATE)
    expected_s = 27 * 200 / 1000.0
    too_long_s = expected_s - 1.0 / HEADROOM
    assert wait_s == pytest.approx(HEADROOM * too_long_s)


def test_who_would_wait_longer_than_its_queue_timeout_is_refused_at_once() -> None:
    """Two and a half times the load refused nobody: all waited 40 s for a first word that was promised within one."""
    house = House()
    for i in range(30):
        house.arrive(f"r{i}")
    expected_s = 27 * 200 / 1000.0
    house.arrive("in time", start_by=HEADROOM * expected_s + 0.1)
    house.arrive("too long", start_by=4.0)
    ((name, why, wait_s),) = house.shed
    assert (name, why) == ("too long", Shed.FULL)
    over_s = expected_s + 200 / 1000.0 - 4.0 / HEADROOM
    assert wait_s == pytest.approx(HEADROOM * over_s)


def test_who_has_waited_as_long_as_it_may_is_told_when_to_come_back() -> None:
    """Whoever others go before is not kept for ever: it gives its place up, is charged nothing and leaves nothing."""
    house = House()
    for i in range(6):
        house.arrive(f"r{i}", start_by=15.0)
    assert house.queue.give_up(RequestId("r5"), 15.0) >= HEADROOM * 200 / 1000.0
    assert len(house.queue) == 1
    house.leave("r5", now=15.0)
    for i in range(5):
        house.leave(f"r{i}", now=16.0)
    assert (house.inside[-1], len(house.queue), house.queue.waiting_cost) == ("r4", 0, 0.0)


def test_who_may_enter_at_once_has_no_queue_timeout() -> None:
    """One that came late to this worker, after another one lost it, is not refused where nobody is before it."""
    house = House()
    house.arrive("r", now=20.0, start_by=15.0)
    assert house.inside == ["r"]


def test_who_would_have_no_time_left_to_run_is_refused() -> None:
    """A request that would only start before its deadline takes nobody's place; in an empty engine it may try."""
    house = House()
    house.arrive("slow")
    house.leave("slow", now=10.0)
    for i in range(5):
        house.arrive(f"r{i}", now=10.0, deadline_at=12.0)
    assert house.inside == ["slow", "r0", "r1", "r2", "r3"]
    assert [(name, why) for name, why, _ in house.shed] == [("r4", Shed.LATE)]


def test_whose_turn_comes_too_late_is_rejected() -> None:
    """What was let wait and can no longer be done in time gives its slot to the next, and is charged nothing."""
    house = House()
    house.arrive("slow")
    house.leave("slow", now=1.0)
    for i in range(4):
        house.arrive(f"r{i}", now=1.0)
    house.arrive("hasty", "h", now=1.0, deadline_at=5.0)
    house.arrive("patient", "p", now=1.0, deadline_at=500.0)
    assert house.shed == []
    house.leave("r0", now=4.5)
    assert [(name, why) for name, why, _ in house.shed] == [("hasty", Shed.LATE)]
    assert house.inside[-1] == "patient"
    house.leave("hasty")


def test_better_standing_evicts_waiting_work_of_a_worse_one() -> None:
    """In a full house batch work that only waited gives way; running work stays."""
    house = House(a_queue(Bounds(total_requests=3)))
    for i in range(7):
        house.arrive(f"b{i}", f"t{i}", standing=Standing.BATCH)
    ran = list(house.inside)
    house.arrive("now", "vip", standing=Standing.INTERACTIVE)
    assert [(name, why) for name, why, _ in house.shed] == [("b6", Shed.FULL), ("b5", Shed.EVICTED)]
    assert house.inside == [*ran, "now"]


def test_a_full_house_sheds_in_the_stated_order() -> None:
    """Shadow, batch, over quota, free, paid, interactive: each evicts those below, and none evicts its like."""
    house = House(a_queue(Bounds(total_requests=6)))
    for i in range(4):
        house.arrive(f"seated{i}")
    for standing in Standing:
        house.arrive(standing.name, standing.name, standing=standing)
    for i in range(6):
        house.arrive(f"i{i}", f"vip{i}")
    assert [(name, why) for name, why, _ in house.shed] == [
        *((standing.name, Shed.EVICTED) for standing in list(Standing)[:-1]),
        ("i5", Shed.FULL),
    ]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(Standing)), min_size=20, max_size=60))
def test_nobody_is_shed_while_somebody_lower_waits(arrivals: list[tuple[str, Standing]]) -> None:
    """Whoever is refused as full or evicted leaves nothing of lower standing in the queue."""
    house = House(a_queue(Bounds(total_requests=6)))
    standings: dict[str, Standing] = {}
    for i, (tenant, standing) in enumerate(arrivals):
        standings[f"r{i}"] = standing
        heard = len(house.shed)
        house.arrive(f"r{i}", tenant, standing=standing)
        waiting = [w for level in house.queue.fair._levels.values() for f in level.flows.values() for w in f.queue]
        for name, _, _ in house.shed[heard:]:
            assert all(standings[other] >= standings[name] for other in waiting)


def test_a_tenant_at_its_own_bound_moves_nobody() -> None:
    """A flood of the best standing fills its own queue; it does not empty those of others."""
    house = House(a_queue(Bounds(tenant_requests=2)))
    for i in range(3):
        house.arrive(f"b{i}", f"t{i}", standing=Standing.BATCH)
    for i in range(20):
        house.arrive(f"f{i}", "flood")
    assert {name[0] for name, _, _ in house.shed} == {"f"}
    assert {why for _, why, _ in house.shed} == {Shed.FULL}


def test_no_standing_with_a_share_is_starved_at_the_door() -> None:
    """Under backlogs of two interactive tenants batch work still gets its share of the engine's service."""
    house = House(a_queue(Bounds(tenant_requests=500)))
    for i in range(150):
        house.arrive(f"x{i}", "x")
        house.arrive(f"y{i}", "y")
        house.arrive(f"b{i}", "b", standing=Standing.BATCH)
    for i in range(200):
        house.leave(house.inside[i], now=float(i))
    served = [name[0] for name in house.inside[:200]]
    assert 8 <= served.count("b") <= 16


def test_work_over_quota_runs_only_while_nobody_else_waits() -> None:
    """Spare work enters an engine that nobody wants, leaves slots for others to come, and waits behind all of them."""
    house = House(a_queue())
    for i in range(9):
        house.arrive(f"spare{i}", "s", standing=Standing.OVER_QUOTA)
    assert len(house.inside) == 3
    for i in range(5):
        house.arrive(f"p{i}", "p", standing=Standing.PAID, now=40.0)
    for gone in range(12):
        house.leave(house.inside[gone], now=41.0)
    assert house.inside[3:8] == [f"p{i}" for i in range(5)]
    assert house.inside[8:] == [f"spare{i}" for i in range(3, 9)]


def test_a_full_queue_says_so() -> None:
    """A tenant's own flood is refused with a wait, and nobody else's is."""
    house = House(a_queue(Bounds(tenant_requests=2)))
    for i in range(8):
        house.arrive(f"f{i}", "flood")
    house.arrive("v", "victim")
    assert {why for _, why, _ in house.shed} == {Shed.FULL}
    assert len(house.shed) == 2
    assert all(name.startswith("f") for name, _, _ in house.shed)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(list(Standing)), st.integers(0, 3)), max_size=80))
def test_everybody_hears_exactly_once_and_nothing_leaks(steps: list[tuple[str, Standing, int]]) -> None:
    """Each request is admitted or rejected once; after all have left, no slot, queue entry or cost remains."""
    house, chance = House(a_queue(Bounds(tenant_requests=5, total_requests=8))), random.Random(1)
    for i, (tenant, standing, leaves) in enumerate(steps):
        house.arrive(f"r{i}", tenant, now=float(i), standing=standing, expected_output_tokens=chance.randrange(1, 200))
        for _ in range(leaves):
            if house.inside:
                name = chance.choice(house.inside)
                if RequestId(name) in house.queue._entries:
                    house.queue.progressed(RequestId(name), chance.randrange(1, 300), float(i))
                house.leave(name, float(i))
    heard = house.inside + [name for name, _, _ in house.shed]
    assert len(heard) == len(set(heard))
    for i in range(len(steps)):
        house.leave(f"r{i}", 1000.0)
    assert len(house.queue) == 0
    assert house.queue.waiting_cost == 0.0
    assert house.queue.slots.saturation == 0.0
    assert not house.queue._entries
