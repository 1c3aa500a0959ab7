"""The gate, in front of an app that stands for the engine."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import Message, Receive, Send

from penstock.domain.ids import RequestId, TenantId, VersionId, WorkerId
from penstock.domain.serving.report import FIRST_PACE, Load, Waited
from penstock.domain.serving.ticket import HEADER, Ticket, binding_of, seal
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats.report import decode
from penstock.telemetry import names
from penstock.telemetry.definitions import Metric, MetricKind
from penstock.worker.gate.corridor import Gate
from penstock.worker.gate.load import Observed
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.estimates import ServiceRate
from penstock.worker.gate_config import GateConfig, install
from tests.support.clock import ManualClock

KEY = b"\x01" * 32
CONFIG = GateConfig(worker=WorkerId("w1"), version=VersionId("m@1"), ticket_key=KEY.hex(), max_num_seqs=2)
TICKET = Ticket(
    request=RequestId("r"),
    tenant=TenantId("acme"),
    standing=Standing.PAID,
    weight=1,
    deadline_at=ManualClock().now() + 30,
    prompt_tokens=10,
    expected_output_tokens=100,
)

SILENCE: Message = {"type": "silence"}
"""Nothing comes any more, as from a client that waits."""


class Engine:
    """Streams chunks, one whenever the test lets it; notes what reaches it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.steps = asyncio.Semaphore(0)
        self.chunks = [b"data: {1}\n\n", b"data: {2}\n\n", b"data: [DONE]\n\n"]
        self.gone = asyncio.Event()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        for number, chunk in enumerate(self.chunks, 1):
            await self.steps.acquire()
            await send({"type": "http.response.body", "body": chunk, "more_body": number < len(self.chunks)})
            if number == 1 and (await receive())["type"] == "http.disconnect":
                self.gone.set()


class Client:
    """What the server in front of the gate does."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.sent: list[Message] = []
        self.next: list[Message] = [{"type": "http.request", "body": b""}]

    async def receive(self) -> Message:
        message = self.next.pop(0) if self.next else {"type": "http.request", "body": b""}
        if message is SILENCE:
            await asyncio.Event().wait()
        return message

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def call(
        self, path: str = "/v1/completions", ticket: Ticket | None = TICKET, *, key: bytes = KEY, **more: object
    ) -> None:
        body = self.next[0].get("body", b"") if self.next else b""
        sealed = seal(ticket, key, binding_of(path, body), self.gate.clock.now()) if ticket else ""
        headers = [(HEADER.encode(), sealed.encode())] if ticket else []
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
        await self.gate({**scope, **more}, self.receive, self.send)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def waited(self) -> Waited | None:
        return decode(self.headers["x-penstock-report"].encode()).waited

    @property
    def body(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(b"".join(message.get("body", b"") for message in self.sent[1:]))
        return found


@pytest.fixture
def engine() -> Engine:
    """Return an engine."""
    return Engine()


@pytest.fixture
def gate(engine: Engine, clock: ManualClock) -> Gate:
    """Return a gate in front of it."""
    return Gate(engine, CONFIG, clock)


def sample(gate: Gate, metric: Metric, **labels: str) -> float:
    name = f"{metric.name}_total" if metric.kind is MetricKind.COUNTER else f"{metric.name}_count"
    return gate.tally.metrics.registry.get_sample_value(name, {"version": "m@1", **labels}) or 0.0


async def settle(check: Callable[[], bool]) -> None:
    for tries in range(3000):
        if check():
            return
        await asyncio.sleep(0 if tries < 100 else 0.001)
    raise AssertionError("it did not come true")


async def started(client: Client, calls: list[Awaitable[None]]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(client.call())
    calls.append(task)
    await settle(lambda: bool(client.sent))
    return task


@pytest.mark.parametrize(
    ("ticket", "key", "status", "reason"),
    [
        (None, KEY, 401, "ticket"),
        (TICKET, b"\x02" * 32, 401, "ticket"),
        (replace(TICKET, deadline_at=ManualClock().now() - 1), KEY, 503, "late"),
    ],
    ids=["missing", "forged", "late"],
)
async def test_what_has_no_valid_ticket_does_not_reach_the_engine(
    gate: Gate, engine: Engine, ticket: Ticket | None, key: bytes, status: int, reason: str
) -> None:
    """Requests without a ticket that is ours and in time are refused, and counted by reason."""
    client = Client(gate)
    await client.call(ticket=ticket, key=key)
    assert (client.status, client.headers["x-penstock-refused"]) == (status, reason)
    assert engine.paths == []
    assert sample(gate, names.GATE_REFUSALS, reason=reason) == 1


async def test_the_load_follows_a_request_through_its_life(gate: Gate, engine: Engine) -> None:
    """A request weighs its prompt until the first token, its expected output until the end, and nothing after it."""
    client = Client(gate)
    task = await started(client, [])
    assert gate.tally.book.load.queued_tokens == 110
    load = Load(running=1, queued_tokens=110, pace_per_s=FIRST_PACE)
    assert decode(client.headers["x-penstock-report"].encode()).load == load
    assert client.headers["x-penstock-worker"] == "w1"
    engine.steps.release()
    await settle(lambda: len(client.sent) == 2)
    assert gate.tally.book.load.queued_tokens == 100
    engine.steps.release()
    engine.steps.release()
    await task
    assert (gate.tally.book.in_flight, gate.tally.book.load.queued_tokens) == (0, 0)
    assert sample(gate, names.ABORTS) == 0
    assert sample(gate, names.GATE_SECONDS, stage="prefill") == 1


async def test_what_the_engine_has_no_place_for_waits_at_the_door(
    gate: Gate, engine: Engine, clock: ManualClock
) -> None:
    """Beyond the batch's places requests wait outside, and enter as others leave; the load says so."""
    calls: list[Awaitable[None]] = []
    clients = [Client(gate) for _ in range(3)]
    for client in clients[:2]:
        await started(client, calls)
    calls.append(await waiting(gate, clients[2]))
    assert (len(engine.paths), gate.tally.load.running, gate.tally.load.waiting) == (2, 2, 1)
    gate.tally.book.observed = Observed(waiting=1, kv_used_ratio=0.99)
    assert (gate.tally.load.running, gate.tally.load.waiting) == (1, 2)
    clock.advance(2.5)
    for _ in range(9):
        engine.steps.release()
    await asyncio.gather(*calls)
    assert [client.status for client in clients] == [200, 200, 200]
    assert [client.waited for client in clients[:2]] == [Waited(), Waited()]
    assert clients[2].waited == Waited(predicted_s=0.42, waited_s=2.5, share=1.0)
    assert (gate.tally.load.running, gate.tally.load.waiting, gate.tally.load.queued_tokens) == (0, 0, 0)


async def test_a_door_that_asks_to_be_looked_at_again_is(
    gate: Gate, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for an event that may not come: the gate has a timer for its queue."""
    rang: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(AdmissionQueue, "look", lambda _, now: rang.set_result(now))
    clock.advance(5.0)
    gate.queue.look_later(0.01)
    assert await asyncio.wait_for(rang, 5.0) == clock.monotonic()


def test_it_shows_how_many_slots_its_engine_has(gate: Gate) -> None:
    """What runs can be held against the size of the batch."""
    shown = gate.tally.metrics.registry.get_sample_value(names.ENGINE_SLOTS.name, {"version": "m@1"})
    assert shown == gate.config.max_num_seqs


def test_it_shows_when_a_prompt_stands_back(gate: Gate) -> None:
    """What free slots are kept for is to be seen."""
    for look_at in (None, 1.0):
        gate.queue.look_at = look_at
        shown = gate.tally.metrics.registry.get_sample_value(names.DOOR_STANDING_BACK.name, {"version": "m@1"})
        assert shown == (look_at is not None)


async def test_a_client_that_leaves_the_queue_leaves_nothing(gate: Gate, engine: Engine) -> None:
    """Who goes while it waits never reaches the engine and holds nothing."""
    calls: list[Awaitable[None]] = []
    for _ in range(2):
        await started(Client(gate), calls)
    leaver = Client(gate)
    leaver.next = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]
    await leaver.call()
    assert (leaver.sent, gate.tally.load.waiting, len(engine.paths)) == ([], 0, 2)
    assert [used.waited_s for used in (await gate.meters.used([TICKET.request])).values()] == [0.0]
    await cancelled(calls)
    assert sample(gate, names.ABORTS) == 2


SOON = ManualClock().now() + 0.05
LATE, TIMED_OUT = replace(TICKET, deadline_at=SOON), replace(TICKET, start_by=SOON)


@pytest.mark.parametrize(("ticket", "reason"), [(LATE, "late"), (TIMED_OUT, "overloaded")], ids=["late", "timed out"])
async def test_who_waits_past_its_time_hears_so(gate: Gate, ticket: Ticket, reason: str) -> None:
    """Who does not enter before its deadline or queue timeout, though it was expected to, is sent back."""
    calls: list[Awaitable[None]] = []
    await started(Client(gate), calls)
    await started(Client(gate), calls)
    gate.queue.forecast.pace = ServiceRate(initial=1e9)
    late = Client(gate)
    late.next = [{"type": "http.request", "body": b""}, SILENCE]
    await late.call(ticket=replace(ticket, tenant=TenantId("other")))
    assert (late.status, late.headers["x-penstock-refused"], len(gate.queue)) == (503, reason, 0)
    assert late.waited == Waited(predicted_s=2.1e-07, share=0.5, tenants=1), "by a clock that stands still"
    assert sample(gate, names.DOOR_SHED, standing="paid", reason=reason) == 1
    await cancelled(calls)


async def test_a_closing_gate_sends_the_queue_elsewhere(gate: Gate) -> None:
    """Who only waited when the worker drains is told at once, so that another worker can serve it."""
    calls: list[Awaitable[None]] = []
    clients = [Client(gate) for _ in range(3)]
    for client in clients[:2]:
        await started(client, calls)
    calls.append(await waiting(gate, clients[2]))
    await Client(gate).call("/penstock/drain", replace(TICKET, tenant=PLATFORM))
    await asyncio.wait_for(calls[2], 1.0)
    assert clients[2].headers["x-penstock-refused"] == "draining"
    await cancelled(calls[:2])


async def waiting(gate: Gate, client: Client) -> Awaitable[None]:
    client.next = [{"type": "http.request", "body": b""}, SILENCE]
    call = asyncio.ensure_future(client.call())
    await settle(lambda: gate.tally.load.waiting > 0)
    return call


async def cancelled(calls: list[Awaitable[None]]) -> None:
    for call in calls:
        assert isinstance(call, asyncio.Task)
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_tokens_after_a_disconnect_are_counted(gate: Gate, engine: Engine) -> None:
    """Events that the engine sends after the client has left are counted, and the request counts as aborted."""
    client = Client(gate)
    client.next = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]
    engine.steps = asyncio.Semaphore(3)
    await client.call()
    assert engine.gone.is_set()
    assert sample(gate, names.TOKENS_AFTER_DISCONNECT) == 1
    assert sample(gate, names.ABORTS) == 1
    assert gate.tally.book.in_flight == 0


async def test_a_failing_engine_leaves_no_load_behind(clock: ManualClock) -> None:
    """An exception inside the engine's server passes through, and the request is counted out."""

    async def broken(*_: object) -> None:
        raise RuntimeError("engine core is gone")

    gate = Gate(broken, CONFIG, clock)
    with pytest.raises(RuntimeError):
        await Client(gate).call()
    assert (gate.tally.book.in_flight, gate.tally.book.load.queued_tokens) == (0, 0)


async def test_a_draining_gate_refuses_new_work_and_keeps_the_old(gate: Gate, engine: Engine) -> None:
    """After the platform's order to drain, running requests go on, new ones are refused, probes still pass."""
    old = Client(gate)
    task = await started(old, [])
    order = Client(gate)
    await order.call("/penstock/drain", replace(TICKET, tenant=PLATFORM))
    assert order.body["in_flight"] == 1
    new = Client(gate)
    await new.call()
    assert (new.status, new.headers["x-penstock-refused"]) == (503, "draining")
    engine.steps = asyncio.Semaphore(10)
    probe = Client(gate)
    await probe.call(ticket=replace(TICKET, tenant=PLATFORM))
    assert probe.status == 200
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_platforms_own_requests_are_no_load(gate: Gate, engine: Engine) -> None:
    """A probe is not counted as load, neither while it runs nor when it ends."""
    client = Client(gate)
    task = asyncio.ensure_future(client.call(ticket=replace(TICKET, tenant=PLATFORM)))
    await settle(lambda: bool(client.sent))
    assert gate.tally.book.in_flight == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (gate.tally.book.in_flight, sample(gate, names.ABORTS)) == (0, 0)


async def test_orders_are_taken_from_the_platform_alone(gate: Gate) -> None:
    """A tenant's ticket neither drains a worker, nor puts it to sleep, nor tells its gate what the engine is doing."""
    for order in ("drain", "observed", "rest", "sleep", "wake"):
        client = Client(gate)
        await client.call(f"/penstock/{order}")
        assert client.status == 401
    assert (gate.entry.is_draining, gate.entry.is_resting) == (False, False)


async def test_the_gate_takes_the_agents_reading(gate: Gate) -> None:
    """What the agent read off the engine is in the load from then on."""
    client = Client(gate)
    told = b'"waiting": 0, "kv_used_ratio": 0.25, "kv_blocks": 364, "still": true, "batch_slots": 3'
    client.next = [{"type": "http.request", "body": b"{%s}" % told}]
    await client.call("/penstock/observed", replace(TICKET, tenant=PLATFORM))
    assert client.body == {
        "load": {
            "running": 0,
            "waiting": 0,
            "queued_tokens": 0,
            "kv_used_ratio": 0.25,
            "wait_s": 0.0,
            "pace_per_s": FIRST_PACE,
        },
        "in_flight": 0,
        "inside": 0,
        "draining": False,
    }
    await (load := Client(gate)).call("/penstock/load", None)
    assert (load.body["kv_used_ratio"], load.body["still_s"]) == (0.25, 0.0)
    assert (gate.queue.slots.size.kv_blocks, gate.queue.yielding.told) == (364, 3)


@pytest.mark.parametrize("path", ["/metrics", "/penstock/metrics"])
async def test_metrics_are_for_the_workers_own_machine(gate: Gate, engine: Engine, path: str) -> None:
    """Metrics are served without a ticket, but only to the loopback address."""
    engine.steps = asyncio.Semaphore(10)
    near, far = Client(gate), Client(gate)
    await near.call(path, None)
    await far.call(path, None, client=("10.0.0.7", 40_000))
    assert (near.status, far.status) == (200, 401)


async def test_websockets_are_closed(gate: Gate, engine: Engine) -> None:
    """What is neither HTTP nor the server's own lifespan does not get in."""
    client = Client(gate)
    await gate({"type": "websocket", "path": "/v1/realtime", "headers": []}, client.receive, client.send)
    assert client.sent == [{"type": "websocket.close", "code": 1008}]
    assert engine.paths == []


def test_an_installed_config_is_what_a_gate_made_by_the_engine_works_with() -> None:
    """The engine's server makes the gate with the app alone, and it knows who it is."""
    install(CONFIG)
    assert Gate(Engine()).config is CONFIG
