"""Reserved capacity: found at once or with the next slots, lent but for a quarter, never more than there is."""

import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import KEPT_FREE, MOST_PROMISED, RESERVATION_HOLD_S
from penstock.worker.gate.queueing.shares import Reserved
from penstock.worker.gate.queueing.slots import EngineSize, Slots
from penstock.worker.gate.queueing.work import Work

SIZE = EngineSize(max_seqs=16, kv_blocks=10_000, block_size=16, watermark=0.0, prefill_tokens=10_000)


def work(name: str, tenant: str, *, reserved: float = 0.0, standing: Standing = Standing.PAID) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId(tenant),
        standing=standing,
        weight=1.0,
        prompt_tokens=50,
        expected_output_tokens=50,
        reserved=reserved,
    )


class House:
    """A queue and who is inside, in the order of entry."""

    def __init__(self) -> None:
        """Open it."""
        self.queue = AdmissionQueue(SIZE)
        self.inside: list[str] = []
        self.number = 0

    def arrive(self, tenant: str, *, reserved: float = 0.0, now: float = 0.0) -> str:
        """Bring one request; return its name."""
        self.number += 1
        name = f"{tenant}{self.number}"
        self.queue.arrive(
            work(name, tenant, reserved=reserved), now, partial(self.inside.append, name), lambda *_: None
        )
        return name

    def leave(self, name: str, now: float = 0.0) -> None:
        """End one that is inside."""
        self.inside.remove(name)
        self.queue.leave(RequestId(name), now)

    def of(self, tenant: str) -> list[str]:
        """Return a tenant's requests inside."""
        return [name for name in self.inside if name.startswith(tenant)]


def slots_of(slots: Slots, reserved: Reserved, tenant: str) -> int:
    """Return how many requests of a tenant an empty engine would run on what it has reserved."""
    taken: list[Work] = []
    while reserved.covers(one := work(f"{tenant}/{len(taken)}", tenant)):
        slots.take(one)
        taken.append(one)
    for one in taken:
        slots.leave(one.request)
    return len(taken)


def flooded(house: House, floods: int = 3) -> None:
    """Have tenants without reservation fill whatever they get, and queue for more."""
    for i in range(40 * floods):
        house.arrive(f"flood{i % floods}-", now=60.0)


def test_a_quarter_of_what_is_unused_stays_free_and_the_rest_is_lent() -> None:
    """Half of sixteen slots reserved and unused: two stay free, six are lent, half a minute after it was last seen."""
    house = House()
    house.leave(house.arrive("r-", reserved=0.5))
    flooded(house)
    assert len(house.inside) == 14


def test_a_reserving_tenant_enters_at_once_and_then_with_every_seat_that_comes_free() -> None:
    """Beside floods its first requests find the free slots, and each leaving answer makes place for its next one."""
    house = House()
    house.leave(house.arrive("r-", reserved=0.5))
    flooded(house)
    for _ in range(10):
        house.arrive("r-", reserved=0.5, now=61.0)
    assert len(house.of("r-")) == 2
    for seated in range(3, 9):
        house.leave(house.of("flood")[0], now=62.0)
        assert len(house.of("r-")) == seated
    house.leave(house.of("flood")[0], now=62.0)
    assert len(house.of("r-")) == 8


@given(
    part=st.sampled_from([0.1, 0.25, 0.5]),
    steps=st.lists(st.sampled_from(["flood", "end", "ask", "done"]), min_size=30, max_size=150),
    seed=st.integers(0, 99),
)
def test_below_its_part_it_never_waits_while_others_are_let_in(part: float, steps: list[str], seed: int) -> None:
    """Whatever happens, as long as a reserving tenant waits and holds less than its part, nobody else enters."""
    house, chance = House(), random.Random(seed)
    house.leave(house.arrive("r-", reserved=part))
    slots, asked = round(part * SIZE.max_seqs), 0
    for step in steps:
        strangers, waiting = len(house.of("flood")), asked - len(house.of("r-"))
        is_owed = waiting > 0 and len(house.of("r-")) < slots
        if step == "flood":
            house.arrive(f"flood{chance.randrange(5)}-", now=100.0)
        elif step == "ask":
            asked += 1
            house.arrive("r-", reserved=part, now=100.0)
        elif step == "end" and house.of("flood"):
            house.leave(chance.choice(house.of("flood")), 100.0)
            strangers -= 1
        elif step == "done" and house.of("r-"):
            asked -= 1
            house.leave(house.of("r-")[0], 100.0)
        if is_owed:
            assert len(house.of("flood")) <= strangers
        assert asked == 0 or house.of("r-")


def test_its_deadline_is_judged_by_its_own_seats() -> None:
    """A reserving tenant in a flood is not refused for a wait that it will not have; the same request of another is."""
    house = House()
    house.leave(house.arrive("r-", reserved=0.5))
    flooded(house)
    for _ in range(3):
        house.arrive("r-", reserved=0.5, now=61.0)
    mine = replace(work("mine", "r-", reserved=0.5), deadline_at=64.0)
    theirs = replace(work("theirs", "flood0-"), deadline_at=64.0)
    assert house.queue.forecast.late_s(mine, 61.0) is None
    assert (house.queue.forecast.late_s(theirs, 61.0) or 0.0) > 0.0


def test_its_neighbours_in_the_lane_lose_nothing() -> None:
    """What runs on reserved slots is not charged to the level: the rest is shared as if it were not there."""
    house = House()
    for _ in range(200):
        house.arrive("r-", reserved=0.5)
        house.arrive("paid-")
        house.queue.arrive(
            replace(work(f"free-{house.number}", "free-"), standing=Standing.FREE),
            0.0,
            partial(house.inside.append, f"free-{house.number}"),
            lambda *_: None,
        )
    served = {"paid-": 0, "free-": 0, "r-": 0}
    for _ in range(300):
        name = house.inside[0]
        served[name[: name.index("-") + 1]] += 1
        house.leave(name)
    assert served["r-"] >= 140
    assert served["paid-"] == pytest.approx(2 * served["free-"], rel=0.3)


@given(st.lists(st.floats(0.01, 0.5), min_size=1, max_size=12))
def test_promises_beyond_the_engine_shrink_in_proportion(parts: list[float]) -> None:
    """All together never take more than four fifths, and who was promised more keeps more."""
    slots = Slots(SIZE)
    reserved = Reserved(slots)
    for i, part in enumerate(parts):
        reserved.seen(work("r", f"t{i}", reserved=part), 0.0)
    scale = min(1.0, MOST_PROMISED / sum(parts))
    got = [slots_of(slots, reserved, f"t{i}") for i in range(len(parts))]
    assert all(abs(slots - part * scale * SIZE.max_seqs) <= 0.5 for slots, part in zip(got, parts, strict=True))
    assert sum(got) <= 0.8 * SIZE.max_seqs + 0.5 * len(parts)
    assert reserved.kept.slots <= KEPT_FREE * sum(got) + 1


def test_a_reservation_is_what_the_last_request_said_and_ends_an_hour_after_it() -> None:
    """A changed plan counts from the next request on; who is gone for good frees its part."""
    slots = Slots(SIZE)
    reserved = Reserved(slots)
    reserved.seen(work("r", "t", reserved=0.5), 0.0)
    reserved.seen(work("r", "t", reserved=0.25), 1.0)
    assert slots_of(slots, reserved, "t") == 0.25 * SIZE.max_seqs
    reserved.forget(1.0 + RESERVATION_HOLD_S)
    assert slots_of(slots, reserved, "t") == 0.25 * SIZE.max_seqs
    reserved.forget(2.0 + RESERVATION_HOLD_S)
    assert (slots_of(slots, reserved, "t"), reserved.kept.slots) == (0, 0)
    reserved.seen(work("r", "t"), 3.0)
    assert reserved.owed() == ()


def test_a_reservation_follows_the_engines_size() -> None:
    """What is kept is counted anew once the engine has said how many blocks it has."""
    slots = Slots(replace(SIZE, kv_blocks=1 << 30))
    reserved = Reserved(slots)
    reserved.seen(work("r", "t", reserved=0.5), 0.0)
    assert reserved.kept.blocks > 10_000
    slots.size = SIZE
    assert reserved.kept.blocks == KEPT_FREE * 5000
