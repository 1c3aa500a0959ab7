"""The door as a whole: everybody hears exactly once, nothing leaks, floods stay their own problem."""

import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenant import Priority
from penstock.worker.admission import doors
from penstock.worker.admission.cost import Work
from penstock.worker.admission.door import Away, Door
from penstock.worker.admission.doors import DoorOrder
from penstock.worker.admission.fair_queue import Bounds
from penstock.worker.admission.seats import EngineSize

SIZE = EngineSize(max_seqs=4, kv_blocks=400, block_size=16, watermark=0.0, prefill_tokens=10_000)


def a_door(bounds: Bounds | None = None, *, order: DoorOrder = DoorOrder.FAIR) -> Door:
    return doors.make(order, SIZE, bounds=bounds, pace=1000.0)


@dataclass
class House:
    """A door and what it told whom."""

    door: Door = field(default_factory=a_door)
    inside: list[str] = field(default_factory=list)
    away: list[tuple[str, Away, float]] = field(default_factory=list)

    def arrive(
        self,
        name: str,
        tenant: str = "t",
        *,
        now: float = 0.0,
        output: int = 50,
        priority: Priority = Priority.INTERACTIVE,
        deadline_at: float = 0.0,
    ) -> None:
        """Bring one request to the door."""
        work = Work(
            request=RequestId(name),
            tenant=TenantId(tenant),
            priority=priority,
            weight=1.0,
            prompt_tokens=100,
            expected_output_tokens=output,
            deadline_at=deadline_at,
        )
        self.door.arrive(
            work, now, lambda: self.inside.append(name), lambda why, wait_s: self.away.append((name, why, wait_s))
        )

    def leave(self, name: str, now: float = 1.0) -> None:
        """End one request."""
        self.door.leave(RequestId(name), now)


def test_an_empty_engine_takes_a_request_at_once() -> None:
    """Without contention there is no queueing delay at all."""
    house = House()
    house.arrive("r")
    assert house.inside == ["r"]


def test_the_engine_never_gets_more_than_it_has_seats() -> None:
    """Whatever is beyond the seats waits here, not in the engine's own queue."""
    house = House()
    for i in range(20):
        house.arrive(f"r{i}")
    assert len(house.inside) == SIZE.max_seqs
    house.leave("r0")
    assert len(house.inside) == SIZE.max_seqs + 1


def test_beside_another_tenant_a_flood_leaves_it_free_seats() -> None:
    """A tenant that comes back within the activity window finds a seat without waiting for the flood's answers."""
    house = House()
    house.arrive("v0", "victim")
    house.leave("v0")
    for i in range(50):
        house.arrive(f"f{i}", "flood", now=2.0)
    house.arrive("v1", "victim", now=3.0)
    assert house.inside == ["v0", "f0", "f1", "v1"]


def test_alone_again_a_tenant_fills_the_engine() -> None:
    """Seats kept for a tenant that never came back are given away after the activity window."""
    house = House()
    house.arrive("v0", "victim")
    house.leave("v0")
    for i in range(10):
        house.arrive(f"f{i}", "flood", now=2.0)
    house.leave("f0", now=60.0)
    assert len(house.inside) == 1 + 1 + SIZE.max_seqs


def test_a_hopeless_deadline_is_refused_at_once() -> None:
    """What can't be reached at the measured pace is not queued, and hears how long it would have taken."""
    house = House()
    for i in range(30):
        house.arrive(f"r{i}")
    house.arrive("late", deadline_at=1.0)
    ((name, why, wait_s),) = house.away
    assert (name, why) == ("late", Away.LATE)
    assert wait_s == 26 * 200 / 1000.0


def test_a_better_class_evicts_waiting_work_of_a_worse_one() -> None:
    """In a full house batch work that only waited gives way; running work stays."""
    house = House(a_door(Bounds(total_requests=3)))
    for i in range(7):
        house.arrive(f"b{i}", f"t{i}", priority=Priority.BATCH)
    house.arrive("now", "vip", priority=Priority.INTERACTIVE)
    assert "now" in house.inside
    assert len([x for x in house.away if x[1] is Away.EVICTED]) <= 1
    assert all(name not in house.inside for name, _, _ in house.away)


def test_a_full_queue_says_so() -> None:
    """A tenant's own flood is refused with a wait, and nobody else's is."""
    house = House(a_door(Bounds(tenant_requests=2)))
    for i in range(8):
        house.arrive(f"f{i}", "flood")
    house.arrive("v", "victim")
    assert {why for _, why, _ in house.away} == {Away.FULL}
    assert len(house.away) == 2
    assert all(name.startswith("f") for name, _, _ in house.away)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(list(Priority)), st.integers(0, 3)), max_size=80))
def test_everybody_hears_exactly_once_and_nothing_leaks(steps: list[tuple[str, Priority, int]]) -> None:
    """Each request is let in or sent away once; after all have left, no seat, queue entry or cost remains."""
    house, chance = House(a_door(Bounds(tenant_requests=5, total_requests=8))), random.Random(1)
    for i, (tenant, priority, leaves) in enumerate(steps):
        house.arrive(f"r{i}", tenant, now=float(i), priority=priority, output=chance.randrange(1, 200))
        for _ in range(leaves):
            if house.inside:
                name = chance.choice(house.inside)
                if RequestId(name) in house.door._guests:
                    house.door.progressed(RequestId(name), chance.randrange(1, 300), float(i))
                house.leave(name, float(i))
    heard = house.inside + [name for name, _, _ in house.away]
    assert len(heard) == len(set(heard))
    for i in range(len(steps)):
        house.leave(f"r{i}", 1000.0)
    assert len(house.door.order) == 0
    assert house.door.order.waiting_cost == 0.0
    assert house.door.seats.saturation == 0.0
    assert not house.door._guests
