"""Requests start in turns by tenant; refusals beyond a burst leave at a pace."""

import asyncio
import time

import pytest

from penstock.domain.errors import OverLimit, Overloaded
from penstock.domain.ids import TenantId
from penstock.intake import turns
from penstock.intake.turns import BUSY_S, LONGEST_S, REFUSALS_AT_ONCE, REFUSALS_PER_S, StartTurns
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
    return time.monotonic() - came


@on_uvloop
async def test_a_burst_does_not_stand_before_a_neighbour() -> None:
    """The neighbour comes last of 200 and is served after a few of them."""
    gate, done = StartTurns(time.monotonic), list[TenantId]()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(200):
            tasks.create_task(working(gate, FLOOD, done))
        tasks.create_task(working(gate, BOB, done))
    assert len(done) == 201
    assert done.index(BOB) <= 6


@on_uvloop
async def test_the_loop_runs_between_starts() -> None:
    """A stream's token waits for two starts at most, not for the whole burst."""
    gate, gaps = StartTurns(time.monotonic), list[int]()
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
    clock.elapsed_s += BUSY_S
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
