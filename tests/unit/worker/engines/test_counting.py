"""The prompts of a list on their way into an engine whose client stands for vLLM's."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from penstock.worker.engines.counting import PRIORITY_PER_WEIGHT, sharing
from penstock.worker.meter import Meter, current
from penstock.worker.share import Share


class Collector:
    """What an engine's client hands out for a prompt: its outputs come here."""

    def __init__(self) -> None:
        self.is_done = asyncio.Event()
        self.error: Exception | None = None
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@dataclass
class Params:
    """What is asked of a prompt."""

    n: int = 1


@dataclass
class Engine:
    """Takes prompts at once, as ``AsyncLLM`` does, and generates from each until the test ends it."""

    inside: dict[str, Collector] = field(default_factory=dict)
    came: list[str] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    refuses: bool = False

    async def add_request(self, request_id: str, prompt: str, params: object, *, priority: int = 0) -> Collector:
        assert prompt == "p"
        self.priorities.append(priority)
        await asyncio.sleep(0)
        self.came.append(request_id)
        if self.refuses:
            raise RuntimeError("the engine is dead")
        return self.inside.setdefault(request_id, Collector())

    async def generate(self, name: str, params: object) -> AsyncIterator[str]:
        queue: Collector | None = None
        try:
            queue = await self.add_request(name, "p", params, priority=7)
            await queue.is_done.wait()
            if queue.error:
                raise queue.error
            yield name
        finally:
            if queue is not None:
                queue.close()


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let prompts wait before they are added."""
    monkeypatch.setattr(Engine, "add_request", sharing(Engine.add_request))


@pytest.fixture
def meter() -> Iterator[Meter]:
    """Yield the meter of a request with a share of two sequences."""
    meter = Meter()
    meter.share = Share(2)
    putting = current.set(meter)
    yield meter
    current.reset(putting)


async def consume(engine: Engine, name: str, params: object) -> None:
    async for _ in engine.generate(name, params):
        pass


async def begin(engine: Engine, names: str, params: object = None) -> list[asyncio.Task[None]]:
    """Ask for these prompts side by side, as a server does for a list."""
    tasks = [asyncio.create_task(consume(engine, name, params)) for name in names]
    await settled()
    return tasks


async def settled() -> None:
    for _ in range(9):
        await asyncio.sleep(0)


async def test_prompts_come_in_by_shares_in_order(meter: Meter) -> None:
    """All prompts of a list entered the engine at once: now a share of them, and each that ends brings the next."""
    engine = Engine()
    tasks = await begin(engine, "abcd")
    assert engine.came == ["a", "b"]
    engine.inside["b"].is_done.set()
    await settled()
    assert engine.came == ["a", "b", "c"]
    engine.inside["a"].is_done.set()
    engine.inside["c"].is_done.set()
    await settled()
    engine.inside["d"].is_done.set()
    await asyncio.gather(*tasks)
    assert [one.closed for one in engine.inside.values()] == [1, 1, 1, 1]


async def test_choices_count(meter: Meter) -> None:
    """A prompt with two choices takes the room of two."""
    engine = Engine()
    await begin(engine, "ab", Params(n=2))
    assert engine.came == ["a"]
    engine.inside["a"].is_done.set()
    await settled()
    assert engine.came == ["a", "b"]


@pytest.mark.parametrize("how", ["aborted", "failed"])
async def test_however_a_prompt_ends_the_next_one_comes_in(meter: Meter, how: str) -> None:
    """An abort and an engine's error end a prompt without a last token, and its room is free all the same."""
    engine = Engine()
    first, *_ = await begin(engine, "abc")
    if how == "aborted":
        first.cancel()
    else:
        engine.inside["a"].error = RuntimeError()
        engine.inside["a"].is_done.set()
    with suppress(asyncio.CancelledError, RuntimeError):
        await first
    await settled()
    assert engine.came == ["a", "b", "c"]


async def test_where_the_engine_refuses_nobody_waits_on(meter: Meter) -> None:
    """Each prompt hears of it in its turn."""
    engine = Engine(refuses=True)
    outcomes = await asyncio.gather(*await begin(engine, "abcde"), return_exceptions=True)
    assert engine.came == list("abcde")
    assert all(isinstance(outcome, RuntimeError) for outcome in outcomes)


@pytest.mark.parametrize("how", ["tasks are cancelled", "the request is over"])
async def test_who_left_adds_nothing_more(meter: Meter, how: str) -> None:
    """A caller of a long list was gone, and its prompts came all the same: what still waits never enters."""
    engine = Engine()
    tasks = await begin(engine, "abcdef")
    if how == "the request is over":
        meter.close()
        for name in "ab":
            engine.inside[name].is_done.set()
    else:
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert engine.came == ["a", "b"]


async def test_a_requests_priority_is_its_tenants_weight() -> None:
    """The scheduler's only word of a tenant's weight is the gate's, whatever the caller said."""
    engine = Engine()
    for weight in (0.5, 1.0, 24.0):
        putting = current.set(Meter(weight))
        await begin(engine, "abc"[len(engine.priorities) :][:1])
        current.reset(putting)
    assert engine.priorities == [1, PRIORITY_PER_WEIGHT, 24 * PRIORITY_PER_WEIGHT]
    for one in engine.inside.values():
        one.is_done.set()
    await settled()


async def test_without_a_share_nothing_waits() -> None:
    """The platform's own prompts, and requests that booked all that they ask for, go straight in."""
    engine = Engine()
    await begin(engine, "abc")
    putting = current.set(Meter())
    await begin(engine, "def")
    current.reset(putting)
    assert engine.came == list("abcdef")
    for one in engine.inside.values():
        one.is_done.set()
    await settled()
