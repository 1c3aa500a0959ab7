"""Adapters at the gate: wanted by who waits, loaded by order, in the place of others; who isn't served hears why."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.domain.clock import SystemClock
from penstock.domain.ids import RequestId, TenantId, VersionId, WorkerId
from penstock.domain.serving.ticket import HEADER, Ticket, binding_of, of_platform, seal
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.corridor import Gate
from penstock.worker.gate_config import GateConfig

KEY = b"\x01" * 32
CONFIG = GateConfig(
    worker=WorkerId("w1"),
    version=VersionId("m@1"),
    ticket_key=KEY.hex(),
    max_num_seqs=4,
    adapter_slots=1,
    adapters_kept=2,
)
A, B, C = (VersionId(f"{name}@000000000000") for name in "abc")
WANTED, LOAD, SETTLE = (f"/penstock/adapters/{what}" for what in ("wanted", "load", "settle"))


async def until(check: Callable[[], bool]) -> None:
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come true")


class Engine:
    """Knows vLLM's API for adapters; answers requests once the test lets it."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str]] = []
        self.broken: set[str] = set()
        self.go = asyncio.Event()
        self.inside: list[str] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401
        body = json.loads((await receive())["body"])
        status = 200
        if scope["path"].endswith("_lora_adapter"):
            self.orders.append((scope["path"].split("/")[-1].split("_")[0], body["lora_name"]))
            status = 500 if body["lora_name"] in self.broken else 200
        else:
            self.inside.append(body["model"])
            await self.go.wait()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b'{"said": "so"}'})


@dataclass
class Room:
    """A gate before an engine, and who speaks to it."""

    engine: Engine
    gate: Gate
    asking: list[asyncio.Task[tuple[int, Mapping[str, Any]]]] = field(default_factory=list)

    async def post(self, path: str, body: Mapping[str, object], ticket: Ticket) -> tuple[int, dict[str, Any]]:
        raw, sent = json.dumps(body).encode(), list[MutableMapping[str, Any]]()
        coming = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if coming:
                return coming.pop()
            await asyncio.Event().wait()
            raise AssertionError("nobody leaves")

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        sealed = seal(ticket, KEY, binding_of(path, raw), self.gate.clock.now())
        scope = {"type": "http", "method": "POST", "path": path, "headers": [(HEADER.encode(), sealed.encode())]}
        await self.gate({**scope, "client": ("127.0.0.1", 1)}, receive, send)
        return int(sent[0]["status"]), json.loads(b"".join(one.get("body", b"") for one in sent[1:]))

    async def order(self, page: str, /, **body: object) -> dict[str, Any]:
        _, answer = await self.post(page, body, of_platform(self.gate.clock.now() + 30))
        return answer

    def ask(
        self, adapter: VersionId, *, tenant: str = "acme", deadline_s: float = 30.0, start_s: float = 0.0
    ) -> asyncio.Task[tuple[int, Mapping[str, Any]]]:
        now = self.gate.clock.now()
        ticket = Ticket(
            request=RequestId(f"r{len(self.asking)}"),
            tenant=TenantId(tenant),
            standing=Standing.PAID,
            weight=1,
            deadline_at=now + deadline_s,
            prompt_tokens=10,
            expected_output_tokens=10,
            start_by=now + start_s if start_s else 0.0,
            adapter=adapter,
        )
        asked = asyncio.ensure_future(self.post("/v1/completions", {"model": adapter}, ticket))
        self.asking.append(asked)
        return asked

    async def load(self, adapter: VersionId) -> dict[str, Any]:
        told = await self.order(LOAD, adapter=adapter, path=f"/copies/{adapter}")
        await self.order(SETTLE, adapter=adapter, outcome="ready", reason="", for_s=0)
        return told


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    """Yield a gate with one slot and memory for two adapters."""
    engine = Engine()
    found = Room(engine, Gate(engine, CONFIG, SystemClock()))
    yield found
    for task in found.asking:
        task.cancel()
    await asyncio.gather(*found.asking, return_exceptions=True)


async def test_a_request_makes_its_adapter_wanted_and_comes_in_once_it_is_ready(room: Room) -> None:
    """The agent hears of it at once; loaded is not ready: nobody but the platform comes in before it was checked."""
    wanted = asyncio.ensure_future(room.order(WANTED, wait_s=10))
    await asyncio.sleep(0.05)
    asked = room.ask(A)
    assert await asyncio.wait_for(wanted, 1.0) == {"adapter": A}
    await room.order(LOAD, adapter=A, path="/copies/a")
    assert room.engine.orders == [("load", A)]
    await asyncio.sleep(0.02)
    assert room.engine.inside == []
    told = await room.order(SETTLE, adapter=A, outcome="ready", reason="", for_s=0)
    assert told == {"resident": [A]}
    await until(lambda: room.engine.inside == [A])
    room.engine.go.set()
    assert (await asked)[0] == 200


async def test_nothing_is_wanted_where_nobody_asks(room: Room) -> None:
    """The long poll ends with nothing after its time."""
    assert await room.order(WANTED, wait_s=0.05) == {}


async def test_the_least_used_leaves_for_a_new_one_and_never_a_busy_one(room: Room) -> None:
    """Memory full, the one that nobody uses is forgotten, first at the queue and then by the engine."""
    await room.load(A)
    await room.load(B)
    room.ask(B)
    await until(lambda: room.engine.inside == [B])
    await room.load(C)
    assert room.engine.orders[-2:] == [("unload", A), ("load", C)]
    text = room.gate.tally.exposition().decode()
    assert 'penstock_adapter_evictions_total{version="m@1"} 1.0' in text
    assert 'penstock_adapters_resident{version="m@1"} 2.0' in text


async def test_a_refused_adapter_is_told_to_who_waits_and_to_who_comes(room: Room) -> None:
    """Whoever waits for it goes with the reason, and so does who comes later; others are served."""
    waits = room.ask(A)
    await room.order(WANTED, wait_s=5)
    await room.order(SETTLE, adapter=A, outcome="refused", reason="it was made for another base", for_s=60)
    status, answer = await waits
    assert (status, answer["error"]["code"]) == (503, "adapter")
    assert "another base" in answer["error"]["message"]
    assert 59.0 < answer["error"]["retry_after_s"] <= 60.0
    assert 59.0 < (await room.ask(A))[1]["error"]["retry_after_s"] <= 60.0
    assert (await room.ask(A))[1]["error"]["message"].endswith("another base.")
    await room.load(B)
    room.engine.go.set()
    assert (await room.ask(B))[0] == 200


async def test_the_queue_timeout_stands_still_while_an_adapter_is_loaded(room: Room) -> None:
    """A load that takes longer than a request may wait in a queue refuses nobody, and its time is no queue's."""
    asked = room.ask(A, start_s=0.3)
    await asyncio.sleep(0.7)
    assert not asked.done()
    await room.load(A)
    room.engine.go.set()
    assert (await asked)[0] == 200


async def test_once_its_adapter_is_there_a_request_waits_in_a_queue_again(room: Room) -> None:
    """One slot, held by another adapter's answer: what was left of the queue timeout is what it still waits."""
    await room.load(A)
    room.ask(A)
    await until(lambda: room.engine.inside == [A])
    asked = room.ask(B, start_s=0.4)
    await asyncio.sleep(0.6)
    await room.load(B)
    status, answer = await asyncio.wait_for(asked, 2.0)
    assert (status, answer["error"]["code"], answer["error"]["reason"]) == (503, "overloaded", None)


@pytest.mark.parametrize("deadline_s", [0.2, 10.0])
async def test_who_is_too_late_for_a_load_hears_of_the_load(room: Room, deadline_s: float) -> None:
    """On arrival or when its deadline has come: not of a queue of its tenant's, and when to come back."""
    room.gate.queue.adapters.residents.load_s = 60.0 if deadline_s > 1.0 else 0.01  # type: ignore[union-attr]
    status, answer = await room.ask(A, deadline_s=deadline_s)
    assert (status, answer["error"]["code"], answer["error"]["reason"]) == (503, "late", "adapter_loading")
    assert answer["error"]["retry_after_s"] >= 1.0


async def test_what_the_engine_does_not_load_is_nobodys(room: Room) -> None:
    """VLLM's own refusal comes back as it is, and nothing is resident."""
    room.engine.broken.add(A)
    told = await room.order(LOAD, adapter=A, path="/copies/a")
    assert told["error"] == '{"said": "so"}'
    assert (await room.order(SETTLE, adapter=A, outcome="gave_up", reason="", for_s=0))["resident"] == []


async def test_who_is_no_platform_gives_no_orders(room: Room) -> None:
    """A gateway's ticket opens none of these pages."""
    ticket = replace(of_platform(room.gate.clock.now() + 30), tenant=TenantId("acme"))
    for path in (WANTED, LOAD, SETTLE):
        assert (await room.post(path, {"wait_s": 0, "adapter": A, "path": "/etc"}, ticket))[0] == 401
    assert room.engine.orders == []


async def test_an_engine_without_slots_takes_no_adapters() -> None:
    """A ticket for an adapter at a worker of another kind is refused; another worker may be tried."""
    engine = Engine()
    room = Room(engine, Gate(engine, replace(CONFIG, adapter_slots=0), SystemClock()))
    status, answer = await room.ask(A)
    assert (status, answer["error"]["code"]) == (503, "adapter")
    assert (await room.post(WANTED, {"wait_s": 0}, of_platform(room.gate.clock.now() + 30)))[0] == 404
    assert engine.inside == []


async def test_what_is_pinned_is_wanted_at_once_and_stays() -> None:
    """Also while the agent waits for something to be wanted; one slot is for the others, whatever was ordered."""
    engine = Engine()
    room = Room(engine, Gate(engine, replace(CONFIG, adapter_slots=2, adapters_kept=2), SystemClock()))
    wanted = asyncio.ensure_future(room.order(WANTED, wait_s=10))
    await asyncio.sleep(0.02)
    assert await room.order("/penstock/adapters/pin", adapters=[B, A]) == {"pinned": [B]}
    assert await wanted == {"adapter": B}
    for adapter in (B, A):
        await room.load(adapter)
    await room.load(C)
    assert room.engine.orders[-2:] == [("unload", A), ("load", C)]
    assert await room.order("/penstock/adapters/pin", adapters=[]) == {"pinned": []}
    await room.load(A)
    assert room.engine.orders[-2:] == [("unload", B), ("load", A)]
