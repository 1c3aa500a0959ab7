"""A tenant's part of the engine's KV blocks: beyond it the next request waits while others go on, or is refused."""

import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SIZE = EngineSize(max_seqs=16, kv_blocks=160, block_size=16, watermark=0.0, prefill_tokens=10_000)
BLOCKS = 10
"""KV blocks of one request of these tests."""


def work(name: str, tenant: str, *, kv_part: float = 0.0, kv_waits: bool = True, blocks: int = BLOCKS) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId(tenant),
        standing=Standing.PAID,
        weight=1.0,
        prompt_tokens=blocks * 16 - 50,
        expected_output_tokens=50,
        kv_part=kv_part,
        kv_waits=kv_waits,
    )


class House:
    def __init__(self, size: EngineSize = SIZE) -> None:
        self.queue = AdmissionQueue(size)
        self.inside: list[str] = []
        self.refused: list[tuple[str, Shed, float]] = []

    def arrive(self, one: Work, now: float = 0.0) -> None:
        name = str(one.request)
        self.queue.arrive(one, now, partial(self.inside.append, name), partial(self._refuse, name))

    def _refuse(self, name: str, why: Shed, wait_s: float) -> None:
        self.refused.append((name, why, wait_s))

    def leave(self, name: str, now: float = 0.0) -> None:
        self.inside.remove(name)
        self.queue.leave(RequestId(name), now)


def test_beyond_its_part_the_next_request_waits_and_others_go_on() -> None:
    """A quarter of 160 blocks is four requests; the fifth enters when one of them ends, and nobody waits for it."""
    house = House()
    for number in range(6):
        house.arrive(work(f"a{number}", "a", kv_part=0.25))
    assert house.inside == ["a0", "a1", "a2", "a3"]
    for number in range(3):
        house.arrive(work(f"b{number}", "b"))
    assert house.inside[4:] == ["b0", "b1", "b2"]
    house.leave("b0")
    assert "a4" not in house.inside, "another tenant's end gives it nothing"
    house.leave("a0")
    assert [name for name in house.inside if name[0] == "a"] == ["a1", "a2", "a3", "a4"]


def test_without_a_part_the_same_tenant_fills_the_engine() -> None:
    """The control: nothing else held it back."""
    house = House()
    for number in range(12):
        house.arrive(work(f"a{number}", "a"))
    assert len(house.inside) == 12


def test_a_request_larger_than_the_part_runs_alone() -> None:
    """It would wait for ever otherwise; its tenant's next one waits for its end."""
    house = House()
    house.arrive(work("large", "a", kv_part=0.25, blocks=80))
    house.arrive(work("next", "a", kv_part=0.25, blocks=1))
    assert house.inside == ["large"]
    house.leave("large")
    assert house.inside == ["next"]


def test_a_part_binds_on_the_engines_free_reserved_slots_too() -> None:
    """A tenant with a tenth reserved and bound to a quarter holds a quarter, whichever way its requests enter."""
    house = House()
    for number in range(8):
        house.arrive(replace(work(f"a{number}", "a", kv_part=0.25), reserved=0.1))
    assert len(house.inside) == 4


def test_waiting_for_its_own_part_earns_no_later_service() -> None:
    """A tenant that was bound for long gets no run of turns before others: it counts as idle meanwhile."""
    house = House(replace(SIZE, kv_blocks=320, max_seqs=8))
    for number in range(8):
        house.arrive(work(f"a{number}", "a", kv_part=BLOCKS / 320))
    house.arrive(work("b", "b"))
    for number in range(200):
        house.arrive(work(f"b{number}", "b"))
        house.leave(next(name for name in house.inside if name[0] == "b"))
    flows = next(level.flows for level in house.queue.fair._levels.values() if level.flows)
    bound, served = flows[TenantId("a")], flows[TenantId("b")]
    per_request = work("x", "x").cost
    assert served.virtual - bound.virtual <= 8 * per_request


def test_a_level_whose_tenants_are_all_bound_earns_none_either() -> None:
    """After hours beside paid work another batch tenant gets the share of its level, and no run of turns."""
    house = House(replace(SIZE, kv_blocks=320, max_seqs=8))
    for number in range(4):
        house.arrive(replace(work(f"a{number}", "a", kv_part=BLOCKS / 320), standing=Standing.BATCH))
    house.arrive(work("b", "b"))
    for number in range(200):
        house.arrive(work(f"b{number}", "b"))
        house.leave(next(name for name in house.inside if name[0] == "b"))
    times, per_request = house.queue.fair._times, work("x", "x").cost
    assert times.of(Standing.PAID) - times.of(Standing.BATCH) <= 8 * per_request


def test_a_tenant_that_would_rather_be_degraded_is_refused_at_once() -> None:
    """Its gateway hears so with a time, others of its requests wait, and nothing is booked for the refused one."""
    house = House()
    for number in range(4):
        house.arrive(work(f"a{number}", "a", kv_part=0.25))
    house.arrive(work("gone", "a", kv_part=0.25, kv_waits=False))
    assert [(name, why) for name, why, _ in house.refused] == [("gone", Shed.KV_PART)]
    assert house.refused[0][2] > 0.0
    assert (len(house.queue), house.queue.waiting_cost) == (0, 0.0)
    house.leave("a0")
    house.arrive(work("fits", "a", kv_part=0.25, kv_waits=False))
    assert house.inside[-1] == "fits"


def test_requests_of_its_own_that_wait_for_a_step_count_too() -> None:
    """A burst that arrives in one step would wait for its part as soon as its first prompts are read."""
    house = House(replace(SIZE, prefill_tokens=BLOCKS * 16))
    for number in range(6):
        house.arrive(work(f"a{number}", "a", kv_part=0.25, kv_waits=False))
    assert [name for name, _, _ in house.refused] == ["a4", "a5"]


def test_its_wait_is_that_of_its_own_requests() -> None:
    """Its queue gets the part of the engine's pace that its running requests are: four times the wait at a quarter."""
    house = House()
    for number in range(3):
        house.arrive(work(f"a{number}", "a", kv_part=3 * BLOCKS / 160))
    for number in range(9):
        house.arrive(work(f"b{number}", "b"))
    pace, mean = house.queue.forecast.pace.per_s, house.queue.slots.mean_cost
    next_ = work("next", "a", kv_part=3 * BLOCKS / 160)
    assert house.queue.expected_wait_s(next_, 0.0) == pytest.approx(4 * mean / pace)
    assert house.queue.forecast.waits_for_own(next_)
    assert not house.queue.forecast.waits_for_own(work("b", "b"))


@given(seed=st.integers(0, 10_000), part=st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_no_order_of_comings_and_goings_breaks_the_part(seed: int, part: float) -> None:
    """At each entry a bound tenant holds its part at most, or one request; and none waits that fits, beside nobody."""
    chance, house = random.Random(seed), House()
    for number in range(60):
        if house.inside and chance.random() < 0.5:
            house.leave(chance.choice(house.inside))
        tenant = chance.choice("ab")
        house.arrive(work(f"{tenant}{number}", tenant, kv_part=part, blocks=chance.randint(4, 30)))
        for one in "ab":
            held = house.queue.slots.held_by(TenantId(one))
            assert held.blocks <= part * SIZE.kv_blocks or held.slots == 1
    while house.inside:
        house.leave(house.inside[0])
    assert not len(house.queue), "whoever waited has run"
