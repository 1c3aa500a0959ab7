"""Inputs of many tenants on few threads: nobody shuts out the others, and nothing runs for nobody."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial

import pytest

from penstock.domain.errors import DeadlineInQueue, InvalidField
from penstock.domain.ids import TenantId, VersionId
from penstock.domain.serving.request import Api
from penstock.domain.serving.ticket import Ticket
from penstock.worker.engines.torch.handler import Given, Prepared
from penstock.worker.engines.torch.main import PrepareMeters
from penstock.worker.engines.torch.preparing import Preparing
from penstock.worker.engines.torch.turns import PendingInput, ThreadTurns
from tests.support.clock import ManualClock
from tests.support.engines import torch_handler
from tests.support.engines.torch_handler import Toy, model, running

MOST = 2


class Threads(Executor):
    """Threads that end their work when they are told; ``begun`` are those at work, in order."""

    def __init__(self) -> None:
        self.begun: list[tuple[Future[object], Callable[[], object]]] = []

    def submit(self, fn: Callable[..., object], /, *_: object, **__: object) -> Future[object]:  # type: ignore[override]
        self.begun.append((Future(), fn))
        return self.begun[-1][0]

    def end(self, index: int = 0) -> None:
        made, work = self.begun.pop(index)
        try:
            made.set_result(work())
        except InvalidField as error:
            made.set_exception(error)


class Room:
    """Inputs that come, and the order in which they were begun."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.threads, self.begun = clock, Threads(), list[str]()
        self.meters = PrepareMeters(VersionId("toy@1"))
        self._preparing = Preparing(self.threads, MOST, clock, self.meters.prepared)
        self.meters.watch(self._preparing)

    def shown(self) -> dict[str, float]:
        """Return what the tier's page shows."""
        told = self.meters.exposition().decode().replace('{version="toy@1"}', "").splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in told if line[0] != "#")}

    def come(self, name: str, *, weight: int = 1, within_s: float = 60) -> asyncio.Task[Prepared]:
        """Let an input come whose tenant is the first letter of its name."""
        work = partial(self.work, name)
        return asyncio.get_running_loop().create_task(
            self._preparing.prepared(work, self.ticket(name, weight, within_s))
        )

    def at_once(self, name: str) -> Prepared:
        """Let a quick one come."""
        return self._preparing.at_once(partial(self.work, name))

    def work(self, name: str) -> Prepared:
        self.begun.append(name)
        if name.endswith("bad"):
            raise InvalidField(name)
        return Prepared(features={}, tokens=len(name))

    def ticket(self, name: str, weight: int, within_s: float) -> Ticket:
        ticket = torch_handler.ticket(name[0])
        return replace(ticket, weight=weight, deadline_at=self.clock.now() + within_s)

    async def end(self, index: int = 0, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.threads.end(index)
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def room(clock: ManualClock) -> Room:
    return Room(clock)


async def test_a_tenant_with_a_hundred_images_keeps_nobody_waiting(room: Room) -> None:
    """A thread is left for whoever holds none: it begins at once, before ninety-eight that came earlier."""
    many = [room.come(f"a{i}") for i in range(100)]
    await settled()
    assert len(room.threads.begun) == MOST
    victim = room.come("v")
    await settled()
    assert len(room.threads.begun) == MOST + 1
    await room.end(MOST)
    assert (await victim).tokens == 1
    assert room.begun == ["v"]
    for one in many:
        one.cancel()


async def test_what_nobody_waits_for_is_never_begun(room: Room) -> None:
    """Who leaves takes along what waits, and who is late when its turn comes is told so; only what runs is run."""
    tasks = [room.come(f"a{i}", within_s=60 if i < 4 else 1) for i in range(6)]
    await settled()
    for one in tasks[1:4]:
        one.cancel()
    await room.end(seconds=2)
    await room.end()
    assert room.begun == ["a0", "a1"]
    assert not room.threads.begun
    for late in tasks[4:]:
        with pytest.raises(DeadlineInQueue):
            await late


async def test_what_runs_for_nobody_keeps_its_thread_until_it_ends(room: Room) -> None:
    """A decode can't be stopped: its caller's leaving gives its tenant no further thread."""
    for one in (tasks := [room.come(f"a{i}") for i in range(4)])[:2]:
        await settled()
        one.cancel()
    await settled()
    assert len(room.threads.begun) == MOST
    await room.end()
    assert len(room.threads.begun) == MOST
    await room.end()
    await room.end()
    assert (await tasks[2]).tokens == 2


async def test_an_input_s_own_error_is_its_caller_s(room: Room) -> None:
    """What the work raises comes out, and the thread is free for the next."""
    bad, good = room.come("a bad"), room.come("a")
    await settled()
    await room.end()
    await room.end()
    with pytest.raises(InvalidField):
        await bad
    assert (await good).tokens == 1


async def test_the_tier_s_queue_is_shown(room: Room) -> None:
    """Who waits is counted now, each wait and each hold of a thread once it is over; who left has neither."""
    tasks = [room.come(f"a{i}") for i in range(4)]
    await settled()
    assert room.shown()["penstock_prepare_items_waiting"] == 2.0
    tasks[3].cancel()
    await room.end(seconds=2)
    await room.end()
    await room.end(seconds=1)
    shown = room.shown()
    assert shown["penstock_prepare_items_waiting"] == 0.0
    assert shown["penstock_prepare_wait_seconds_count"] == shown["penstock_prepare_seconds_count"] == 3.0
    assert shown["penstock_prepare_wait_seconds_sum"] == 2.0
    assert shown["penstock_prepare_seconds_sum"] == 5.0


async def test_what_is_made_at_once_is_shown_too(room: Room) -> None:
    """It waits for nobody and holds no thread; cores are asked for by all that is prepared."""
    assert room.at_once("a").tokens == 1
    assert not room.threads.begun
    assert room.shown()["penstock_prepare_seconds_count"] == 1.0
    assert room.shown()["penstock_prepare_wait_seconds_sum"] == 0.0


def served(weights: dict[str, int], seconds: dict[str, float], rounds: int = 600) -> dict[str, float]:
    """Return the thread seconds of tenants that always have something to prepare."""
    turns, used, now = ThreadTurns(MOST), dict.fromkeys(weights, 0.0), 0.0
    running: list[tuple[float, str, PendingInput]] = []

    def come(name: str) -> None:
        turns.come(PendingInput(TenantId(name), weights[name], lambda: None))

    for name in weights:
        for _ in range(MOST + 1):
            come(name)
    for _ in range(rounds):
        while (one := turns.next()) is not None:
            running.append((now + seconds[one.tenant], one.tenant, one))
            come(one.tenant)
        first = min(running, key=lambda each: each[0])
        running.remove(first)
        now, name, one = first
        used[name] += seconds[name]
        turns.ended(one, seconds[name])
    return used


def test_threads_are_shared_by_time_and_not_by_number() -> None:
    """Beside whose images take fifty times as long a tenant gets half of the time, and by weight its multiple."""
    equal = served({"a": 1, "b": 1}, {"a": 0.5, "b": 0.01})
    assert 0.8 < equal["b"] / equal["a"] < 3
    weighted = served({"a": 1, "b": 2}, {"a": 0.1, "b": 0.1})
    assert weighted["b"] / weighted["a"] == pytest.approx(2, rel=0.1)


class Held(Toy):
    """Prepares nothing until it is told to, and counts."""

    def __init__(self) -> None:
        super().__init__(model())
        self.begun, self.came, self.may = 0, threading.Event(), threading.Event()

    def preprocess(self, given: Given) -> Prepared:
        self.begun += 1
        self.came.set()
        assert self.may.wait(20.0)
        return super().preprocess(given)


async def test_a_storm_of_requests_that_leave_at_once_is_neither_prepared_nor_computed() -> None:
    """M3: of two hundred only those are prepared that had begun, none is computed, and who comes next is."""
    handler = Held()
    async with running(handler) as engine:
        storm = [asyncio.create_task(engine.post(Api.EMBEDDINGS, {"input": "a b"})) for _ in range(200)]
        assert await asyncio.to_thread(handler.came.wait, 20.0)
        for one in storm:
            one.cancel()
        await asyncio.gather(*storm, return_exceptions=True)
        begun = handler.begun
        handler.may.set()
        answer = await engine.post(Api.EMBEDDINGS, {"input": "a"}, tenant="another")
        assert answer.status == 200
        assert begun <= 2
        assert (handler.begun, engine.numbers.items) == (begun + 1, 1)
