"""What every limit store promises, held against the one in memory and the one in a real Redis."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.connectors.redis.limits import RedisLimits
from penstock.connectors.redis.wire import PATIENCE_S, REST_S, Wire
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import Draw, LimitStore, Measure, MeterKind, SpentStore
from tests.support.stores.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
async def wire(server: RedisServer) -> AsyncIterator[Wire]:
    wire = Wire(server.url, patience_s=2.0)
    await wire.call("FLUSHALL")
    yield wire
    await wire.close()


class Store(LimitStore, SpentStore, Protocol):
    """Both halves."""


class SteppedClock(SystemClock):
    """A machine with its wall clock set back."""

    def __init__(self) -> None:
        self.back_s = 0.0

    def now(self) -> float:
        return super().now() - self.back_s


@pytest.fixture
def wall() -> SteppedClock:
    """Return the clock of the store in memory."""
    return SteppedClock()


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, wall: SteppedClock) -> Store:
    if request.param == "memory":
        return MemoryLimits(wall)
    return RedisLimits(request.getfixturevalue("wire"))


StepBack = Callable[[], Awaitable[None]]
AN_HOUR_ON = """
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TYPE', key).ok == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, 3600000, member) end
  elseif redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, 'at') == 1 then
    redis.call('HINCRBY', key, 'at', 3600000)
  end
end
return 1
"""
"""A server can't be given another clock, but its state can be an hour older than now: as after a step back."""


@pytest.fixture
def step_back(request: pytest.FixtureRequest, store: Store, wall: SteppedClock) -> StepBack:
    """Return what sets the store's wall clock back by an hour."""

    async def step() -> None:
        wall.back_s = 3600.0
        if isinstance(store, RedisLimits):
            await request.getfixturevalue("wire").call("EVAL", AN_HOUR_ON, 0)

    return step


def lease(number: int) -> RequestId:
    return RequestId(f"lease-{number}")


def bucket(amount: int, capacity: int = 10, refill_per_s: float = 0.001, key: str = "rpm") -> Draw:
    return Draw(
        key=key,
        kind=MeterKind.BUCKET,
        measure=Measure.TOKENS,
        amount=amount,
        capacity=capacity,
        refill_per_s=refill_per_s,
    )


def slots(capacity: int = 2, key: str = "slots", amount: int = 1) -> Draw:
    return Draw(key=key, kind=MeterKind.SLOTS, measure=Measure.CONCURRENCY, amount=amount, capacity=capacity)


def budget(amount: int, capacity: int = 100, key: str = "usd") -> Draw:
    return Draw(
        key=key,
        kind=MeterKind.BUDGET,
        measure=Measure.SPEND,
        amount=amount,
        capacity=capacity,
        window_ends_in_s=3600.0,
    )


async def test_a_bucket_gives_what_it_holds_and_says_when_it_refills(store: LimitStore) -> None:
    """The refusal carries the seconds until the bucket has refilled enough."""
    assert (await store.reserve(lease(1), [bucket(7, refill_per_s=2.0)], 5.0)).remaining == (3,)
    refused = await store.reserve(lease(2), [bucket(7, refill_per_s=2.0)], 5.0)
    assert not refused.granted
    assert refused.retry_after_s == pytest.approx(2.0, abs=0.3)


async def test_a_draw_beyond_the_bucket_can_never_be_given(store: LimitStore) -> None:
    """No waiting helps a request that is larger than the limit itself."""
    refused = await store.reserve(lease(1), [bucket(11)], 5.0)
    assert (refused.granted, refused.retry_after_s) == (False, 0.0)


async def test_all_draws_are_given_or_none(store: LimitStore) -> None:
    """A refusal by the last meter leaves the first ones untouched."""
    assert (await store.reserve(lease(1), [bucket(4), slots(), budget(101)], 5.0)).granted is False
    again = await store.reserve(lease(2), [bucket(10), slots(capacity=1), budget(100)], 5.0)
    assert again.granted


async def test_a_look_tells_what_a_reservation_would_hear_and_takes_nothing(store: LimitStore) -> None:
    """Finding 6: a tenant over its limit costs a look-up; holds and levels are as before."""
    draws = [bucket(7), slots(1), budget(60)]
    assert await store.look(draws) == await store.reserve(lease(1), draws, 5.0)
    assert [(await store.look(draws[at:])).refused_by for at in range(3)] == draws


async def test_settlement_replaces_the_reservation_by_the_use(store: LimitStore) -> None:
    """What was reserved too much comes back, slots are free again, spend is what was spent."""
    await store.reserve(lease(1), [bucket(8), slots(capacity=1), budget(80)], 5.0)
    assert await store.settle(lease(1), {Measure.TOKENS: 3, Measure.SPEND: 30})
    after = await store.reserve(lease(2), [bucket(7), slots(capacity=1), budget(70)], 5.0)
    assert after.granted
    assert not (await store.reserve(lease(3), [budget(1)], 5.0)).granted


async def test_overuse_is_owed(store: LimitStore) -> None:
    """Use beyond the reservation is taken from what comes next; a refusal tells what is spent and what is held."""
    await store.reserve(lease(1), [bucket(1), budget(10)], 5.0)
    await store.settle(lease(1), {Measure.TOKENS: 10, Measure.SPEND: 95})
    assert not (await store.reserve(lease(2), [bucket(1), budget(3)], 5.0)).granted
    await store.reserve(lease(4), [budget(3)], 5.0)
    refused = await store.reserve(lease(3), [slots(), budget(6)], 5.0)
    assert (refused.granted, refused.spent, refused.held, refused.remaining) == (False, 95, 3, (2, 2))


async def test_a_lease_settles_once(store: LimitStore) -> None:
    """The second settlement changes nothing, whatever it says."""
    await store.reserve(lease(1), [budget(50)], 5.0)
    assert [await store.settle(lease(1), {Measure.SPEND: spent}) for spent in (10, 90)] == [True, False]
    assert (await store.reserve(lease(2), [budget(90)], 5.0)).granted


async def test_a_lease_opens_once(store: LimitStore) -> None:
    """The same lease can't draw twice."""
    await store.reserve(lease(1), [bucket(1)], 5.0)
    with pytest.raises(Conflict):
        await store.reserve(lease(1), [bucket(1)], 5.0)


async def test_a_hold_that_nobody_renews_frees_itself(store: LimitStore) -> None:
    """A dead process's slots and budget holds come back by themselves."""
    await store.reserve(lease(1), [slots(capacity=1), budget(100)], 0.2)
    assert not (await store.reserve(lease(2), [slots(capacity=1)], 5.0)).granted
    await asyncio.sleep(0.3)
    assert (await store.reserve(lease(3), [slots(capacity=1), budget(100)], 5.0)).granted


async def test_a_bucket_refills_after_the_clock_went_back(store: LimitStore, step_back: StepBack) -> None:
    """Finding 13: after a step back of an hour a bucket refills at its pace from what it had, and owes nothing."""
    await store.reserve(lease(1), [bucket(10, refill_per_s=50.0)], 5.0)
    await step_back()
    refused = await store.reserve(lease(2), [bucket(10, refill_per_s=50.0)], 5.0)
    assert 0.0 < refused.retry_after_s <= 0.2
    await asyncio.sleep(refused.retry_after_s + 0.02)
    assert (await store.reserve(lease(3), [bucket(10, refill_per_s=50.0)], 5.0)).granted


async def test_a_dead_hold_ends_after_the_clock_went_back(store: LimitStore, step_back: StepBack) -> None:
    """Finding 13: slots and budget holds without renewal last no longer than one hold, whatever the clock did."""
    await store.reserve(lease(1), [slots(capacity=1), budget(100)], 0.2)
    await step_back()
    for number, draw in enumerate((slots(capacity=1), budget(100)), start=2):
        assert not (await store.reserve(lease(number), [draw], 0.2)).granted
    await asyncio.sleep(0.3)
    assert (await store.reserve(lease(4), [slots(capacity=1), budget(100)], 0.2)).granted


async def test_a_dead_gateway_is_not_counted_after_the_clock_went_back(wire: Wire) -> None:
    """Finding 13: a silent gateway leaves the shares of the others, however far the server's clock went back."""
    store = RedisLimits(wire)
    await store.present("dead", 0.2)
    await wire.call("EVAL", AN_HOUR_ON, 0)
    assert (await store.present("alive", 0.2)).gateways == 2
    counts = []
    for _ in range(3):
        await asyncio.sleep(0.1)
        counts.append((await store.present("alive", 0.2)).gateways)
    assert counts[-1] == 1


async def test_slots_come_free_before_the_bill(store: LimitStore) -> None:
    """A request that runs no more gives its slot back at once; its money is settled later, and renewing takes none."""
    await store.reserve(lease(1), [slots(capacity=1), budget(90)], 5.0)
    await store.free(lease(1))
    await store.free(lease(99))
    await store.renew([lease(1)], 5.0)
    assert (await store.reserve(lease(2), [slots(capacity=1), budget(10)], 5.0)).granted
    assert not (await store.reserve(lease(3), [slots(capacity=1)], 5.0)).granted
    assert await store.settle(lease(1), {Measure.SPEND: 50})
    assert not (await store.reserve(lease(4), [slots(capacity=1)], 5.0)).granted
    assert (await store.reserve(lease(5), [budget(40)], 5.0)).granted


async def test_a_renewed_hold_stays(store: LimitStore) -> None:
    """A living stream keeps its slot for as long as it lives."""
    await store.reserve(lease(1), [slots(capacity=1), budget(100)], 0.3)
    for _ in range(3):
        await asyncio.sleep(0.15)
        await store.renew([lease(1), lease(99)], 0.3)
    assert not (await store.reserve(lease(2), [slots(capacity=1)], 5.0)).granted
    assert not (await store.reserve(lease(3), [budget(1)], 5.0)).granted


async def test_a_late_settlement_still_counts(store: LimitStore) -> None:
    """A lease's spend counts after its hold has expired."""
    await store.reserve(lease(1), [budget(10)], 0.05)
    await asyncio.sleep(0.1)
    await store.reserve(lease(2), [budget(1)], 5.0)
    assert await store.settle(lease(1), {Measure.SPEND: 60})
    assert not (await store.reserve(lease(3), [budget(40)], 5.0)).granted
    assert (await store.reserve(lease(4), [budget(39)], 5.0)).granted


async def test_two_hundred_at_once_get_exactly_the_budget(store: LimitStore) -> None:
    """Of 200 concurrent requests against a budget for 37, exactly 37 are admitted."""
    answers = await asyncio.gather(*(store.reserve(lease(i), [budget(10, 375), slots(500)], 5.0) for i in range(200)))
    assert sum(a.granted for a in answers) == 37


async def test_what_was_spent_can_be_read(store: Store) -> None:
    """A meter tells what was settled, not what is held; one that never counted tells nothing spent."""
    await store.reserve(lease(1), [budget(30), slots()], 5.0)
    await store.reserve(lease(2), [budget(40)], 5.0)
    await store.settle(lease(1), {Measure.SPEND: 11})
    assert await store.spent(["usd", "never"]) == {"usd": 11, "never": 0}
    assert await store.spent([]) == {}


async def test_counters_are_raised_and_never_lowered(store: Store) -> None:
    """What the ledger knows more of is counted; what it doesn't know yet stays counted; a new budget begins with it."""
    await store.reserve(lease(1), [budget(30)], 5.0)
    await store.settle(lease(1), {Measure.SPEND: 30})
    await store.raise_spent({"usd": 20, "new": 90})
    await store.raise_spent({})
    assert await store.spent(["usd", "new"]) == {"usd": 30, "new": 90}
    assert not (await store.reserve(lease(2), [budget(11, key="new")], 5.0)).granted
    assert (await store.reserve(lease(3), [budget(10, key="new"), budget(70)], 5.0)).granted


async def test_counters_are_put_right_under_running_leases(store: Store) -> None:
    """An exact amount replaces the counter; holds stay, and settle on top of it."""
    await store.reserve(lease(1), [budget(60)], 5.0)
    await store.put_spent({"usd": 40})
    assert not (await store.reserve(lease(2), [budget(1)], 5.0)).granted
    await store.settle(lease(1), {Measure.SPEND: 5})
    assert await store.spent(["usd"]) == {"usd": 45}
    await store.put_spent({"usd": 0})
    assert (await store.reserve(lease(3), [budget(100)], 5.0)).granted


async def test_memory_and_redis_decide_alike(wire: Wire) -> None:
    """A long random history of leases gets the same answers from both, and both end with the same meters."""
    chance = random.Random(7)
    stores: list[LimitStore] = [MemoryLimits(SystemClock()), RedisLimits(wire)]
    living: list[RequestId] = []
    for step in range(600):
        if living and chance.random() < 0.45:
            done = living.pop(chance.randrange(len(living)))
            used = {Measure.TOKENS: chance.randrange(9), Measure.SPEND: chance.randrange(12)}
            assert [await s.settle(done, used) for s in stores] == [True, True]
            continue
        draws = [
            bucket(chance.randrange(1, 9), 400, 1e-9, key=f"b{chance.randrange(2)}"),
            slots(chance.randrange(3, 9), key=f"s{chance.randrange(2)}"),
            budget(chance.randrange(1, 12), 900),
        ]
        first, second = [await s.reserve(lease(step), draws, 600.0) for s in stores]
        assert first == second, step
        if first.granted:
            living.append(lease(step))


async def test_what_was_given_elsewhere_is_taken_over_the_limit(store: LimitStore) -> None:
    """Adopted leases count, hold and settle as any other, also beyond what a meter has; they are adopted once."""
    draws = [bucket(8), slots(capacity=1), budget(80)]
    assert (await store.reserve(lease(1), draws, 5.0)).granted
    await store.adopt(lease(2), draws, 5.0)
    with pytest.raises(Conflict):
        await store.adopt(lease(2), draws, 5.0)
    refused = await store.reserve(lease(3), draws, 5.0)
    assert (refused.granted, refused.remaining) == (False, (-6, -1, -60))
    await store.settle(lease(1), {Measure.TOKENS: 0, Measure.SPEND: 0})
    await store.settle(lease(2), {Measure.TOKENS: 9, Measure.SPEND: 20})
    assert (await store.reserve(lease(4), [bucket(1), slots(capacity=1), budget(80)], 5.0)).granted


async def test_a_refusal_tells_what_every_meter_has(store: LimitStore) -> None:
    """Also those behind the one that refused, and untouched."""
    await store.reserve(lease(1), [bucket(4), slots(), budget(30)], 5.0)
    for number in (2, 3):
        refused = await store.reserve(lease(number), [bucket(7), slots(), budget(30)], 5.0)
        assert (refused.granted, refused.remaining) == (False, (6, 1, 70))


async def test_gateways_know_of_one_another(wire: Wire) -> None:
    """A gateway that reports is counted until it is silent, and a store that forgot has another mark."""
    first, second = RedisLimits(wire), RedisLimits(wire)
    was = await first.present("a", 0.5)
    assert (was.gateways, was.since) == (1, 1)
    await asyncio.sleep(0.01)
    both = await second.present("b", 0.5, since_ms=was.at_ms)
    assert (both.gateways, both.since, both.mark) == (2, 1, was.mark)
    await asyncio.sleep(0.6)
    assert (await second.present("b", 0.5)).gateways == 1
    # Whoever is first to find it empty, the one that had marked it before included.
    for gateway in (second, first):
        await wire.call("FLUSHALL")
        assert (await gateway.present("c", 5.0)).mark != was.mark


async def test_a_dead_store_says_so_fast(tmp_path: Path) -> None:
    """Frozen or gone, a decision fails within a fraction of a second, those after it at once, and it comes back."""
    with RedisServer(tmp_path) as server:
        wire = Wire(server.url)
        limits = RedisLimits(wire)
        assert (await limits.reserve(lease(1), [slots()], 5.0)).granted
        server.freeze(frozen=True)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(limits.reserve(lease(2), [slots()], 5.0), 1.0)
        began = time.monotonic()
        for number in range(3, 100):
            with pytest.raises(StoreUnavailable):
                await limits.reserve(lease(number), [slots()], 5.0)
        assert time.monotonic() - began < REST_S
        server.freeze(frozen=False)
        await asyncio.sleep(REST_S)
        assert (await limits.reserve(lease(100), [bucket(1)], 5.0)).granted
        server.kill()
        for call in (limits.settle(lease(1), {}), limits.spent(["usd"]), limits.raise_spent({"usd": 1})):
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(call, 1.0)
        await wire.close()


async def test_a_crowd_is_no_silence(wire: Wire, server: RedisServer) -> None:
    """Hundreds of decisions at once, behind a loop that is busy for longer than a decision may take, are all made."""
    brisk = Wire(server.url)
    limits = RedisLimits(brisk)
    asking = [asyncio.create_task(limits.reserve(lease(i), [bucket(1, 5000)], 5.0)) for i in range(800)]
    await asyncio.sleep(0)
    time.sleep(2 * PATIENCE_S)  # noqa: ASYNC251  the loop is held up on purpose
    assert all(decision.granted for decision in await asyncio.gather(*asking))
    await brisk.close()


async def test_a_request_may_take_several_slots(store: Store) -> None:
    """Finding 1: eight choices at once are eight of ten requests at a time, kept, given back and lapsing together."""
    assert (await store.reserve(lease(1), [slots(10, amount=8)], 0.3)).remaining == (2,)
    assert not (await store.reserve(lease(2), [slots(10, amount=3)], 5.0)).granted
    for _ in range(3):
        await asyncio.sleep(0.2)
        await store.renew([lease(1)], 0.3)
    assert not (await store.reserve(lease(3), [slots(10, amount=3)], 5.0)).granted
    await store.settle(lease(1), {})
    assert (await store.reserve(lease(4), [slots(10, amount=10)], 0.1)).remaining == (0,)
    await asyncio.sleep(0.15)
    assert (await store.reserve(lease(5), [slots(10, amount=10)], 5.0)).granted
