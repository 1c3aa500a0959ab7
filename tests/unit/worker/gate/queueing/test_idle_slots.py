"""Shares without idle slots: while anybody waits who fits, all are taken but the stated reserve; nobody starves."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.tenants import ACTIVE_S
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import KEPT_PART, MAX_BYPASSES, RESERVE_PART, STANDING_PART
from penstock.worker.gate.queueing.may_enter import MayEnter
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Fit, Work

SLOTS = 24
SIZE = EngineSize(max_seqs=SLOTS, kv_blocks=400, block_size=16, watermark=0.0, prefill_tokens=256)
SHARED = [standing for standing in Standing if not standing.is_spare]


@dataclass
class House:
    """A queue with a timer, who waits in which order, and who is inside."""

    queue: AdmissionQueue = field(default_factory=lambda: AdmissionQueue(SIZE, pace=1000.0))
    now: float = 0.0
    waiting: dict[RequestId, Work] = field(default_factory=dict)
    inside: dict[RequestId, Work] = field(default_factory=dict)
    timers: list[float] = field(default_factory=list)
    seen: dict[TenantId, tuple[Standing, float]] = field(default_factory=dict)
    """Each tenant's latest standing with a share, and when it was last here."""
    numbers: int = 0

    def __post_init__(self) -> None:
        """Be the queue's timer, and let it know how long answers take."""
        self.queue.forecast.stay.learn(4.0, 100.0)
        self.queue.look_later = lambda seconds: self.timers.append(self.now + seconds)

    @property
    def rules(self) -> MayEnter:
        """The queue's own rules."""
        return self.queue.rules

    def arrive(self, work: Work) -> None:
        """Bring a request."""
        self.waiting[work.request] = work
        if not work.standing.is_spare:
            self.seen[work.tenant] = work.standing, self.now
        self.queue.arrive(work, self.now, partial(self._admit, work), lambda *_: self._reject(work))

    def work(self, tenant: str, standing: Standing, *, prompt: int, output: int, sequences: int = 1) -> Work:
        """Return a new request."""
        self.numbers += 1
        return Work(
            request=RequestId(f"{tenant}/{self.numbers}"),
            tenant=TenantId(tenant),
            standing=standing,
            weight=1.0,
            prompt_tokens=prompt,
            expected_output_tokens=output,
            sequences=sequences,
        )

    def first_token(self, request: RequestId) -> None:
        """Its prompt is through."""
        self.queue.progressed(request, 1, self.now)

    def leave(self, request: RequestId) -> None:
        """One that is inside ends."""
        del self.inside[request]
        self.queue.leave(request, self.now)

    def end(self, request: RequestId) -> None:
        """One that is inside has all of the answer that was expected."""
        self.first_token(request)
        work = self.inside.get(request)
        assert work is not None
        self.queue.progressed(request, work.expected_output_tokens - 1, self.now)
        self.leave(request)

    def has_neighbour(self, work: Work) -> bool:
        """Tell whether another tenant of the request's level is active."""
        return any(
            tenant != work.tenant and standing is work.standing and self.now - at <= ACTIVE_S
            for tenant, (standing, at) in self.seen.items()
        )

    def wait(self, seconds: float) -> None:
        """Let time pass, and the timers ring."""
        until = self.now + seconds
        for tenant in {work.tenant for work in (*self.waiting.values(), *self.inside.values())} & set(self.seen):
            self.seen[tenant] = self.seen[tenant][0], until
        while self.timers and min(self.timers) <= until:
            self.now = min(self.timers)
            self.timers.remove(self.now)
            self.queue.look(self.now)
        self.now = until

    def heads(self) -> list[Work]:
        """Return who is next of each tenant and standing that waits; spare work only where nobody else does."""
        first: dict[tuple[TenantId, Standing], Work] = {}
        for work in self.waiting.values():
            first.setdefault((work.tenant, work.standing), work)
        shared = [work for work in first.values() if not work.standing.is_spare]
        return shared or list(first.values())

    def _admit(self, work: Work) -> None:
        self.inside[work.request] = self.waiting.pop(work.request)

    def _reject(self, work: Work) -> None:
        del self.waiting[work.request]


def kept_out(house: House) -> list[Work]:
    """Return who waits though it fits, with more free than the reserve that is stated for its standing.

    Where prompts on their way through prefill are in somebody's way, all wait for the step or two that it takes.
    """
    slots, rules, heads = house.queue.slots, house.rules, house.heads()
    rooms = [slots.room_for(work, prefill_part=rules._prefill_part(work)) for work in heads]
    if Fit.SOON in rooms:
        return []
    return [
        work for work, room in zip(heads, rooms, strict=True) if room is Fit.YES and beyond_the_reserve(house, work)
    ]


def beyond_the_reserve(house: House, work: Work) -> bool:
    """Tell whether the request leaves the reserve untouched: that of its standing, or what a flood may leave free."""
    part = STANDING_PART[work.standing] - KEPT_PART * house.has_neighbour(work)
    slots, reserve = house.queue.slots, max(RESERVE_PART, 1.0 - part)
    need, left = slots.need(work), slots.whole.times(1.0 - reserve)
    return slots.held.slots + need.slots <= left.slots and slots.held.blocks + need.blocks <= left.blocks


Move = tuple[str, int, int, Standing, float]

steps = st.lists(
    st.tuples(
        st.sampled_from(["come", "come", "come", "flood", "first", "end", "wait"]),
        st.integers(0, 10**6),
        st.integers(0, 7),
        st.sampled_from(list(Standing)),
        st.floats(0.01, 3.0),
    ),
    min_size=20,
    max_size=120,
)


def play(house: House, moves: list[Move], size: Callable[[int], dict[str, int]]) -> None:
    """Make one random move after another; after each of them somebody has come in, or nobody was kept out."""
    for kind, number, tenant, standing, seconds in moves:
        here = list(house.inside)
        if kind == "come":
            house.arrive(house.work(f"t{tenant}", standing, **size(number)))
        elif kind == "flood":
            ask_until_it_waits(house, f"t{tenant}", standing)
        elif kind == "wait":
            house.wait(seconds)
        elif here and kind == "first":
            house.first_token(here[number % len(here)])
        elif here:
            house.leave(here[number % len(here)])
        assert kept_out(house) == []


def ask_until_it_waits(house: House, tenant: str, standing: Standing) -> int:
    """Send one request after another, each with its prompt read; return the number inside."""
    before = -1
    while len(house.inside) > before:
        before = len(house.inside)
        house.arrive(house.work(tenant, standing, prompt=10, output=10))
        for request in list(house.inside):
            house.queue.progressed(request, 0, house.now)
    return before


def pause(house: House, tenant: str, standing: Standing) -> None:
    """Have an active tenant with nothing here: its request came and ended."""
    house.arrive(house.work(tenant, standing, prompt=10, output=10))
    house.end(next(iter(house.inside)))


TWO_PAUSE = [(kind, 0, tenant, Standing.INTERACTIVE, 1.0) for tenant in (1, 2) for kind in ("come", "first", "end")]


@given(steps)
@example([*TWO_PAUSE, ("flood", 0, 0, Standing.SHADOW, 1.0)])
@example([*TWO_PAUSE, ("flood", 0, 0, Standing.BATCH, 1.0)])
def test_while_anybody_waits_who_fits_seats_beyond_the_reserve_are_taken(moves: list[Move]) -> None:
    """Whatever came, went, was prefilled or stood back: nobody who fits waits while more than the reserve is free."""
    play(House(), moves, lambda number: {"prompt": 1 + number % 60, "output": 1 + number % 40})


@pytest.mark.parametrize("standing", list(Standing))
def test_a_level_reaches_its_part_beside_active_tenants_of_better_ones(standing: Standing) -> None:
    """The eighth for others is one of all slots; a part that leaves as much to better levels is not reduced by it."""
    house = House()
    for tenant in ("a", "b"):
        pause(house, tenant, Standing.INTERACTIVE)
    part = min(STANDING_PART[standing], 1.0 - KEPT_PART)
    assert ask_until_it_waits(house, "low", standing) == math.ceil(part * SLOTS)


@pytest.mark.parametrize("standing", SHARED)
def test_a_level_keeps_an_eighth_in_its_part_for_its_own_tenants(standing: Standing) -> None:
    """Beside a flood that fills its level's part, an active tenant of the same level finds free slots at once."""
    house = House()
    pause(house, "neighbour", standing)
    assert ask_until_it_waits(house, "flood", standing) == math.ceil((STANDING_PART[standing] - KEPT_PART) * SLOTS)
    before = len(house.inside)
    house.arrive(house.work("neighbour", standing, prompt=10, output=10))
    assert len(house.inside) == before + 1


@given(st.integers(2, 60), st.integers(1, 40))
def test_a_flood_takes_what_its_many_neighbours_leave(tenants: int, asked: int) -> None:
    """With any number of tenants about that have had their answers, one tenant gets all slots but an eighth of them."""
    house = House()
    for i in range(tenants):
        pause(house, f"t{i}", Standing.INTERACTIVE)
    for _ in range(asked):
        house.arrive(house.work("busy", Standing.INTERACTIVE, prompt=10, output=10))
        for request in list(house.inside):
            house.queue.progressed(request, 0, house.now)
    assert len(house.inside) == min(asked, round((1 - KEPT_PART) * SLOTS))


@given(
    standing=st.sampled_from(SHARED),
    others=st.sampled_from(SHARED),
    sequences=st.integers(2, SLOTS),
    order=st.lists(st.integers(0, 10**6), min_size=1, max_size=50),
)
def test_a_request_of_many_sequences_is_not_starved(
    standing: Standing, others: Standing, sequences: int, order: list[int]
) -> None:
    """Finding 1: beside small requests that never end coming it gets its slots after so many of them, of any level."""
    house = House()
    for i in range(3 * SLOTS):
        house.arrive(house.work(f"t{i % 3}", others, prompt=10, output=10))
    big = house.work("big", standing, prompt=20, output=10 * sequences, sequences=sequences)
    house.arrive(big)
    passed = 0
    while big.request not in house.inside:
        here = list(house.inside)
        house.end(here[order[passed % len(order)] % len(here)])
        house.arrive(house.work(f"t{passed % 3}", others, prompt=10, output=10))
        passed += 1
        assert passed <= 16 * SLOTS + MAX_BYPASSES


@given(st.integers(1, SLOTS // 2), st.integers(0, 10**6))
def test_requests_of_many_sequences_starve_nobody(sequences: int, seed: int) -> None:
    """Finding 1: beside a flood of them a neighbour's single request waits for no more than two of them to end."""
    house = House()
    for _ in range(8):
        house.arrive(house.work("many", Standing.PAID, prompt=20, output=10 * sequences, sequences=sequences))
    neighbour = house.work("one", Standing.PAID, prompt=20, output=10)
    house.arrive(neighbour)
    ended = 0
    while neighbour.request not in house.inside:
        for request in list(house.inside):
            house.first_token(request)
        here = list(house.inside)
        if neighbour.request not in here:
            house.end(here[(seed + ended) % len(here)])
            ended += 1
        assert ended <= 2
