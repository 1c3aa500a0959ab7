"""Requests start in turns by tenant; refusals beyond a burst leave at a pace."""

import asyncio
import time

import pytest

from penstock.domain.errors import OverLimit, Overloaded
from penstock.domain.ids import TenantId
from penstock.intake import turns
from penstock.intake.turns import (
    ALONE_S,
    BUSY_S,
    ENDS_A_TURN,
    LONGEST_S,
    NEIGHBOUR_S,
    REFUSALS_AT_ONCE,
    REFUSALS_PER_S,
    StartTurns,
)
from tests.support.clock import ManualClock
from tests.support.gateways.server import on_uvloop

FLOOD, BOB = TenantId("flood"), TenantId("bob")
WORK_S = 0.002


async def working(gate: StartTurns, tenant: TenantId, done: list[TenantId]) -> float:
    """Start a request that holds the loop, as reading and tokenising do; return the seconds until it ended."""
    came = time.monotonic()
    await gate.take(tenant)
    until = time.monotonic() + WORK_S
    while time.monotonic() < until:
        pass
    done.append(tenant)
    gate.leave(tenant)
    return time.monotonic() - came


async def started(gate: StartTurns, tenant: TenantId, clock: ManualClock, order: list[str], work_s: float) -> None:
    """Start a request that takes the clock's time."""
    await gate.take(tenant)
    clock.elapsed_s += work_s
    order.append(tenant)


async def turn_sizes(gate: StartTurns, clock: ManualClock, tenants: list[TenantId], work_s: float) -> list[int]:
    """Start requests of these tenants at once; return the number of starts in each turn of the loop."""
    order, sizes = list[str](), list[int]()
    tasks = [asyncio.ensure_future(started(gate, tenant, clock, order, work_s)) for tenant in tenants]
    while not all(task.done() for task in tasks):
        before = len(order)
        await asyncio.sleep(0)
        sizes.extend([len(order) - before] * (len(order) > before))
    return sizes


@on_uvloop
async def test_a_burst_does_not_stand_before_a_neighbour() -> None:
    """The neighbour comes last of 200 and is served after a few of them."""
    gate, done = StartTurns(time.monotonic), list[TenantId]()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(200):
            tasks.create_task(working(gate, FLOOD, done))
        tasks.create_task(working(gate, BOB, done))
    assert len(done) == 201
    assert done.index(BOB) <= round(ALONE_S / WORK_S) + 1


@on_uvloop
async def test_the_loop_runs_between_starts() -> None:
    """A neighbour's token waits for two starts at most, not for the whole burst."""
    gate, gaps = StartTurns(time.monotonic), list[int]()
    await gate.take(BOB)
    done: list[TenantId] = []

    async def streams() -> None:
        before = 0
        while len(done) < 100:
            gaps.append(len(done) - before)
            before = len(done)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(working(gate, FLOOD, done))
        tasks.create_task(streams())
    assert max(gaps) <= 3


async def test_a_turn_starts_the_requests_that_fit_its_time(clock: ManualClock) -> None:
    """Beside a neighbour: of the shortest many, of the longest one; none waits for the number of others alone."""
    gate = StartTurns(clock.monotonic)
    await gate.take(BOB)
    assert set(await turn_sizes(gate, clock, [FLOOD] * 39, 0.0008)) == {3}
    assert set(await turn_sizes(gate, clock, [FLOOD] * 5, 0.003)) == {1}


async def test_a_tenant_without_neighbours_has_longer_turns(clock: ManualClock) -> None:
    """A neighbour inside ends them, whenever it came, and so does one that asked a moment ago."""
    gate = StartTurns(clock.monotonic)
    assert max(await turn_sizes(gate, clock, [FLOOD] * 40, 0.001)) == round(ALONE_S / 0.001)
    await gate.take(BOB)
    clock.elapsed_s += 2 * NEIGHBOUR_S
    assert max(await turn_sizes(gate, clock, [FLOOD] * 40, 0.001)) == round(BUSY_S / 0.001)
    gate.leave(BOB)
    assert max(await turn_sizes(gate, clock, [FLOOD] * 40, 0.001)) == round(BUSY_S / 0.001)
    clock.elapsed_s += NEIGHBOUR_S
    assert max(await turn_sizes(gate, clock, [FLOOD] * 40, 0.001)) == round(ALONE_S / 0.001)


async def test_requests_that_find_their_turn_used_up_keep_their_order(clock: ManualClock) -> None:
    """A long start sends all that were woken with it to the next turns, in the order of waking."""
    gate, order = StartTurns(clock.monotonic), list[str]()
    others = [TenantId(f"tenant {number}") for number in range(6)]
    work = [BUSY_S, 0.0, 0.0, BUSY_S, 0.0, 0.0, 0.0]
    async with asyncio.TaskGroup() as tasks:
        for tenant, work_s in zip([FLOOD, *others], work, strict=True):
            tasks.create_task(started(gate, tenant, clock, order, work_s))
    assert order == [FLOOD, *others]


async def test_a_lone_request_waits_for_nothing(clock: ManualClock) -> None:
    """Without a burst there is no turn of the loop more: the coroutine ends at once."""
    gate = StartTurns(clock.monotonic)
    with pytest.raises(StopIteration):
        gate.take(BOB).send(None)
    with pytest.raises(StopIteration):
        gate.take(FLOOD).send(None)


async def test_waiting_requests_are_a_share(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tenant fills a half and hears of its limit; a newcomer finds room; who leaves gives its place back."""
    monkeypatch.setattr(turns, "MOST_WAITING", 10)
    gate = StartTurns(clock.monotonic)
    await gate.take(FLOOD)
    clock.elapsed_s += ALONE_S
    waiting = [gate.take(FLOOD) for _ in range(5)]
    for one in waiting:
        one.send(None)
    with pytest.raises(OverLimit) as refused:
        await gate.take(FLOOD)
    assert refused.value.reason == "tenant_starting"
    newcomer = asyncio.ensure_future(gate.take(BOB))
    for one in waiting:
        one.close()
    await asyncio.wait_for(newcomer, 1.0)
    await gate.take(FLOOD)
    assert gate._room.used == 0
    assert not gate._waiting


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        seen.extend([seconds] * (seconds > 1e-6))  # less is the clock's rounding

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seen


async def test_refusals_beyond_a_burst_are_paced(clock: ManualClock, slept: list[float]) -> None:
    """By tenant: another one's refusal leaves at once; after a quiet time there is a burst again."""
    gate = StartTurns(clock.monotonic)
    for _ in range(int(REFUSALS_AT_ONCE) + 100):
        await gate.pace(FLOOD)
    assert len(slept) == 100
    assert slept[-1] == pytest.approx(100 / REFUSALS_PER_S)
    await gate.pace(BOB)
    assert len(slept) == 100
    clock.elapsed_s += 60.0
    await gate.pace(FLOOD)
    assert len(slept) == 100


async def test_no_refusal_waits_longer_than_its_caller(clock: ManualClock, slept: list[float]) -> None:
    """With thousands of connections each still hears within seconds."""
    gate = StartTurns(clock.monotonic)
    for _ in range(5_000):
        await gate.pace(FLOOD)
    assert max(slept) == pytest.approx(LONGEST_S)


def test_the_waiting_room_of_many_is_the_gateways_own_limit() -> None:
    """A tenant with little of it hears that the gateway is full."""
    gate = StartTurns(time.monotonic)
    for number in range(40):
        while gate._room.take(str(number), 1):
            pass
    assert isinstance(gate._refusal(BOB), Overloaded)


@on_uvloop
async def test_what_ends_at_once_ends_in_turns() -> None:
    """A thousand refusals or departures leave room between them, and a neighbour's is among the first."""
    gate, ended = StartTurns(time.monotonic), list[TenantId]()

    async def end(tenant: TenantId) -> None:
        await gate.end(tenant)
        ended.append(tenant)

    flood = [asyncio.ensure_future(end(FLOOD)) for _ in range(1_000)]
    bob = asyncio.ensure_future(end(BOB))
    sizes = list[int]()
    while not all(one.done() for one in (*flood, bob)):
        before = len(ended)
        await asyncio.sleep(0)
        sizes.append(len(ended) - before)
    assert max(sizes) <= ENDS_A_TURN
    assert len(sizes) < 2 * 1_000 / ENDS_A_TURN
    assert ended.index(BOB) < 3 * ENDS_A_TURN
    await asyncio.wait_for(gate.end(FLOOD), 1.0)
    assert not gate._ending
