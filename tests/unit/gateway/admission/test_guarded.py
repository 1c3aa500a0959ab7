"""Many gateways and one store that goes away, comes back, and may have forgotten: no limit is exceeded by that."""

import asyncio
import io
import json
import random
import time

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.outage import LONGEST_WAIT_S, SHORTEST_WAIT_S
from penstock.gateway.admission.outage import Reach, WhenAway
from penstock.gateway.admission.unsynced import NOTHING
from penstock.telemetry import logs, names
from tests.support.clock import ManualClock
from tests.support.gateways.failing_limits import GATEWAYS, Room, money, rate, slot


async def test_each_gateway_gives_its_part_while_the_store_is_away(clock: ManualClock) -> None:
    """Together the limit and no more, and after the first silence nobody asks the store again."""
    room = Room(clock)
    await room.round()
    await room.round()
    room.store.is_down = True
    assert await room.given(200, rate) == 40
    assert room.store.asked == GATEWAYS
    assert room.reaches() == {Reach.ALONE}
    shown = room.metrics.gauge(names.LIMITS_REACH)
    assert [shown.labels(reach)._value.get() for reach in Reach] == [0.0, 1.0, 0.0]


async def test_money_is_never_spent_unseen_and_rates_are_not_held_up_by_it(clock: ManualClock) -> None:
    """Who has a budget is refused while it can't be counted, until the store decides again; others are served."""
    room = Room(clock, 1)
    await room.round()
    room.store.is_down = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="costs nothing"):
            await room.ask(0, rate(), money())
    assert (await room.ask(0, rate()))[1].granted
    room.store.is_down = False
    await room.round()
    assert room.reaches() == {Reach.RETURNING}
    with pytest.raises(StoreUnavailable):
        await room.ask(0, money())
    await room.round()
    assert (await room.ask(0, money()))[1].granted
    assert room.metrics.counter(names.LIMITS_ALONE).labels("closed")._value.get() == 4


async def test_callers_of_a_long_outage_come_back_less_often(clock: ManualClock) -> None:
    """A caller that was always told one second came back sixty times a minute, and was refused each time."""
    room = Room(clock, 1)
    await room.round()
    room.store.is_down = True
    waits = []
    for elapsed_s in (0.0, 10.0, 20.0, 600.0):
        clock.advance(elapsed_s)
        with pytest.raises(StoreUnavailable) as refused:
            await room.ask(0, rate(), money())
        waits.append(refused.value.retry_after_s)
    assert waits == [SHORTEST_WAIT_S, pytest.approx(10.0, abs=5), pytest.approx(30.0, abs=5), LONGEST_WAIT_S]


@pytest.mark.parametrize("takes_first", [False, True])
async def test_a_hiccup_is_waited_out(clock: ManualClock, *, takes_first: bool) -> None:
    """Who has a budget waits for a store that was silent for a moment; for one that stays away nobody waits twice."""
    room = Room(clock, 1, grace_s=0.2)
    await room.round()
    room.store.is_down, room.store.takes_first = True, takes_first
    waiting = asyncio.create_task(room.ask(0, money()))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    room.store.is_down = False
    await room.round(0.1)
    assert not waiting.done()
    await room.round(0.3)
    await room.round(0.1)
    lease, decision = await waiting
    assert (decision.granted, decision.remaining, room.store.held()) == (True, (90,), 10)
    assert room.store.settled == []
    await room.gateways[0].settle(lease, {})
    await room.round()
    assert (room.store.settled, room.store.held()) == ([lease], 0)

    room.store.is_down = True
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="costs nothing"):
        await room.ask(0, money())
    assert time.monotonic() - began > 0.15
    clock.advance(0.2)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="costs nothing"):
        await room.ask(0, money())
    assert time.monotonic() - began < 0.1


async def test_silence_wakes_who_looks_for_the_store(clock: ManualClock) -> None:
    """The look after the next comes as soon as a request has found the store away."""
    room = Room(clock, 1)
    await room.round()
    looking = asyncio.create_task(room.gateways[0].pause())
    await asyncio.sleep(0.01)
    assert not looking.done()
    room.store.is_down = True
    await room.ask(0, rate())
    async with asyncio.timeout(0.5):
        await looking


async def test_the_log_says_why_the_store_is_away(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why is said once: our own words and the class of the cause, whose words may hold an address or a password."""

    def refuse() -> None:
        raise StoreUnavailable("the store can't be reached") from ConnectionRefusedError("redis://:secret@cache")

    stream = io.StringIO()
    logs.configure("gateway", stream=stream)
    room = Room(clock, 1)
    monkeypatch.setattr(room.store, "_check", refuse)
    await room.ask(0, rate())
    await room.ask(0, rate())
    (told,) = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (told["event"], told["level"]) == ("limits_store_away", "error")
    assert told["reason"] == "the store can't be reached (ConnectionRefusedError)"


async def test_an_operator_may_prefer_service_to_certainty(clock: ManualClock) -> None:
    """An open limit isn't asked and shows itself untouched; a shared-out budget gives its part."""
    room = Room(clock, 2, requests=WhenAway.OPEN, spend=WhenAway.SHARE)
    await room.round()
    await room.round()
    room.store.is_down = True
    answers = [(await room.ask(0, rate(), money()))[1] for _ in range(6)]
    assert [answer.granted for answer in answers] == [True] * 5 + [False]
    assert answers[0].remaining == (40, 40)
    assert answers[5].refused_by == money()


async def test_what_was_given_alone_counts_when_the_store_is_back(clock: ManualClock) -> None:
    """A rate used up by parts is used up in the store as well: nothing more is given on return."""
    room = Room(clock)
    await room.round()
    await room.round()
    room.store.is_down = True
    assert await room.given(60, rate) == 40
    for gateway in room.gateways:
        for lease in list(gateway._unsynced.living):
            await gateway.settle(lease, {})
    room.store.is_down = False
    given, seconds = 0, 0
    while room.reaches() != {Reach.SHARED}:
        await room.round()
        seconds += 1
        given += await room.given(40, rate)
    given += await room.given(40, rate)
    assert seconds <= 3
    assert given <= seconds * 40 / 60


async def test_slots_held_before_and_during_an_outage_are_held_after_it(clock: ManualClock) -> None:
    """A store that froze for longer than holds last, or forgot, knows every living stream before it decides."""
    for forgets in (False, True):
        room = Room(clock)
        await room.round()
        await room.round()
        before = await room.given(4, slot)
        room.store.is_down = True
        during = await room.given(20, slot)
        assert (before, during) == (4, 4)
        for _ in range(15):
            await room.round()
        room.store.is_down = False
        if forgets:
            room.store.forget()
        for _ in range(4):
            await room.round()
            assert await room.given(8, slot) == 0
        assert room.reaches() == {Reach.SHARED}
        for gateway in room.gateways:
            for lease in list(gateway._unsynced.living):
                await gateway.settle(lease, {})
        assert room.store.held() == 0


async def test_a_store_that_forgot_opens_no_budget_before_it_is_counted_again(clock: ManualClock) -> None:
    """Emptied while it served or while it was away: closed until the ledger has been read."""
    room = Room(clock, 1)
    gateway = room.gateways[0]
    await room.round()
    room.store.forget()
    await room.round()
    assert gateway.wants_count
    with pytest.raises(StoreUnavailable):
        await room.ask(0, money())
    assert (await room.ask(0, rate()))[1].granted
    gateway.counting()
    room.store.forget()
    await room.round()
    gateway.counted()
    assert gateway.wants_count, "it forgot again while it was counted"
    with pytest.raises(StoreUnavailable):
        await room.ask(0, money())
    gateway.counting()
    gateway.counted()
    assert (await room.ask(0, money()))[1].granted


async def test_a_lease_the_store_took_before_it_fell_silent_is_not_taken_twice(clock: ManualClock) -> None:
    """Granted alone it is the same lease; refused, it is given back: at rest nothing is held."""
    room = Room(clock, 1)
    await room.round()
    room.store.is_down = room.store.takes_first = True
    lease, decision = await room.ask(0, slot(), rate())
    assert decision.granted
    room.store.is_down = False
    await room.round()
    await room.round()
    assert room.store.held() == 1
    await room.gateways[0].settle(lease, NOTHING)
    room.store.is_down = True
    with pytest.raises(StoreUnavailable):
        await room.ask(0, money())
    assert room.store.held() == 10
    room.store.is_down = False
    await room.round()
    assert room.store.held() == 0


async def test_a_gateway_that_never_returns_holds_nobody_up(clock: ManualClock) -> None:
    """The others wait for it a few seconds, on both counts, and go on."""
    room = Room(clock)
    await room.round()
    await room.round()
    room.store.is_down = True
    await room.given(GATEWAYS, rate)
    room.gateways.pop()
    room.store.is_down = False
    rounds = 0
    while room.reaches() != {Reach.SHARED}:
        await room.round()
        rounds += 1
    assert 3 <= rounds <= 6


class Players:
    """Callers of all gateways, who ask and end at random and settle as reservations do: again where it failed."""

    def __init__(self, room: Room, chance: random.Random, limit: int) -> None:
        self.room, self.chance, self.limit = room, chance, limit
        self.living: list[tuple[int, RequestId]] = []
        self.late: list[tuple[int, RequestId]] = []

    async def ask(self) -> None:
        gateway = self.chance.randrange(GATEWAYS)
        lease, decision = await self.room.ask(gateway, slot(self.limit))
        if decision.granted:
            self.living.append((gateway, lease))
            if self.all_know():
                assert len(self.living) <= self.limit
        assert len(self.living) <= 2 * self.limit

    def all_know(self) -> bool:
        """Whether every gateway has noticed what happened: one that decides alone is a round behind."""
        mark = self.room.store.mark
        return all(one.reach is not Reach.ALONE and one._mark == mark for one in self.room.gateways)

    async def end(self, count: int = 1) -> None:
        for _ in range(min(count, len(self.living))):
            self.late.append(self.living.pop(self.chance.randrange(len(self.living))))
        await self.settle()

    async def settle(self) -> None:
        late, self.late = self.late, []
        for gateway, lease in late:
            try:
                await self.room.gateways[gateway].settle(lease, {})
            except StoreUnavailable:
                self.late.append((gateway, lease))

    async def round(self) -> None:
        await self.room.round()
        await self.settle()

    async def down(self) -> None:
        self.room.store.is_down, self.room.store.takes_first = True, self.chance.random() < 0.5

    async def up(self) -> None:
        if self.room.store.is_down and self.chance.random() < 0.2:
            self.room.store.forget()
        self.room.store.is_down = False


@pytest.mark.parametrize("seed", range(20))
async def test_random_outages_exceed_no_limit_and_lose_no_slot(clock: ManualClock, seed: int) -> None:
    """What the store gives is within the limit however it came back, shares are bounded, at rest nothing is held."""
    chance, room = random.Random(seed), Room(clock)
    players = Players(room, chance, limit=8)
    acts = [players.ask, players.end, players.round, players.down, players.up]
    await room.round()
    await room.round()
    for _ in range(400):
        await chance.choices(acts, [50, 30, 10, 3, 6])[0]()
    room.store.is_down = False
    for _ in range(6):
        await players.round()
    await players.end(len(players.living))
    assert (players.late, room.store.held(), room.reaches()) == ([], 0, {Reach.SHARED})
