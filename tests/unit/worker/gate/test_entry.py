"""The gate of a worker that is told to sleep: nothing new comes in, nothing that is in is touched."""

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import Receive, Send

from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.worker.gate.corridor import Gate
from tests.support.clock import ManualClock
from tests.unit.worker.gate.test_corridor import CONFIG, SILENCE, TICKET, Client, Engine, settle, started

PLATFORMS = replace(TICKET, tenant=PLATFORM)


@pytest.fixture
def engine() -> Engine:
    """Return an engine that streams as the test lets it."""
    return Engine()


@pytest.fixture
def gate(engine: Engine, clock: ManualClock) -> Gate:
    """Return a gate in front of it."""
    return Gate(engine, CONFIG, clock)


async def rest(gate: Gate, *, on: bool) -> dict[str, object]:
    order = Client(gate)
    order.next = [{"type": "http.request", "body": b'{"rest": %s}' % (b"true" if on else b"false")}]
    await order.call("/penstock/rest", PLATFORMS)
    assert order.status == 200
    return order.body


async def test_a_resting_gate_lets_nobody_in_and_ends_nobody(gate: Gate, engine: Engine) -> None:
    """The stream that runs comes to its end; who comes meanwhile hears that the worker sleeps; probes still pass."""
    calls: list[Any] = []
    client = Client(gate)
    running = await started(client, calls)
    assert (await rest(gate, on=True))["inside"] == 1
    late = Client(gate)
    await late.call()
    assert (late.status, late.headers["x-penstock-refused"]) == (503, "sleeping")
    for _ in range(10):
        engine.steps.release()
    await running
    assert client.sent[-1]["body"] == b"data: [DONE]\n\n"
    probe = Client(gate)
    await probe.call(ticket=PLATFORMS)
    assert probe.status == 200
    assert (await rest(gate, on=True))["inside"] == 0


async def test_who_waits_at_the_door_gets_its_turn(gate: Gate, engine: Engine) -> None:
    """Two places are taken and a third request waits: the gate that closes behind it does not send it away."""
    clients, calls = [Client(gate) for _ in range(3)], list[Any]()
    for client in clients[:2]:
        await started(client, calls)
    clients[2].next.append(SILENCE)
    calls.append(asyncio.ensure_future(clients[2].call()))
    await settle(lambda: gate.tally.load.waiting == 1)
    assert (await rest(gate, on=True))["inside"] == 3
    for _ in range(20):
        engine.steps.release()
    await settle(lambda: bool(clients[2].sent))
    assert clients[2].status == 200
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_who_has_yet_to_send_its_body_is_inside(gate: Gate) -> None:
    """A gate with a half sent request behind it is not still: its engine may not be ended."""
    client = Client(gate)
    client.next = [SILENCE]
    call = asyncio.ensure_future(client.call())
    await settle(lambda: gate.entry.inside == 1)
    assert (await rest(gate, on=True))["inside"] == 1
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert gate.entry.inside == 0


async def test_an_open_gate_takes_work_again(gate: Gate, engine: Engine) -> None:
    """New demand before the streams have ended: the worker serves on."""
    await rest(gate, on=True)
    await rest(gate, on=False)
    client = Client(gate)
    call = await started(client, [])
    assert client.status == 200
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


class Sleeper:
    """Notes how it is told to sleep and to wake, as vLLM is; ``status`` is its answer."""

    def __init__(self, status: int = 200) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.status = status

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await receive()
        self.asked.append((scope["path"], scope["query_string"]))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_a_resting_engine_is_told_to_sleep_and_to_wake(clock: ManualClock) -> None:
    """The engine's own endpoints are called inside its process, at level 1, and no ticket of a tenant reaches them."""
    engine = Sleeper()
    gate = Gate(engine, CONFIG, clock)
    await rest(gate, on=True)
    for path in ("/penstock/sleep", "/penstock/wake"):
        order = Client(gate)
        await order.call(path, PLATFORMS)
        assert order.status == 200
    assert engine.asked == [("/sleep", b"level=1"), ("/wake_up", b"")]
    for path in ("/sleep", "/wake_up", "/collective_rpc"):
        client = Client(gate)
        await client.call(path, PLATFORMS)
        assert client.status == 404
    assert len(engine.asked) == 2


async def test_an_engine_whose_gate_is_open_is_never_told_to_sleep(clock: ManualClock) -> None:
    """What sleeps would answer nobody: the gate has to be closed before."""
    engine = Sleeper()
    order = Client(Gate(engine, CONFIG, clock))
    await order.call("/penstock/sleep", PLATFORMS)
    assert (order.status, engine.asked) == (409, [])


async def test_an_engine_that_does_not_wake_says_so(clock: ManualClock) -> None:
    """Its error is the answer to the order."""
    gate = Gate(Sleeper(500), CONFIG, clock)
    await rest(gate, on=True)
    order = Client(gate)
    await order.call("/penstock/wake", PLATFORMS)
    assert order.status == 500


async def test_no_other_workers_engine_answers_a_ticket(clock: ManualClock) -> None:
    """Where a worker that sleeps had its port another version's may listen now, and takes no ticket for it."""
    engine = Engine()
    other = replace(CONFIG, worker=WorkerId("w2"), version=VersionId("m@2"), ticket_key=(b"\x02" * 32).hex())
    client = Client(Gate(engine, other, clock))
    await client.call()
    assert (client.status, client.headers["x-penstock-refused"], engine.paths) == (401, "ticket", [])
