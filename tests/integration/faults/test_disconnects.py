"""Clients that leave: queued, in prefill, in decode; streaming or not. The engine is free within a second."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from penstock.telemetry import names
from tests.support.asks import CHAT, long_answer, long_prompt
from tests.support.faults import FaultTable
from tests.support.fleet import Fleet, Gate
from tests.support.platform import until
from tests.support.wire import Wire

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

FREE_WITHIN_S = 1.0
BATCH = 32
TOKENS_MADE = "vllm:generation_tokens_total"
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "unary"])


def chat_gate(fleet: Fleet) -> Gate:
    return next(gate for gate in fleet.gates() if gate.serves("smollm2"))


def held(gate: Gate) -> float:
    load = gate.load()
    return load["running"] + load["waiting"]


@contextmanager
def counting(fleet: Fleet, gate: Gate, clients: int) -> Iterator[Callable[[], float]]:
    """Yield what waits for the engine to be free, timed; check afterwards that everything was counted."""
    cancelled = fleet.counted(names.REQUESTS, outcome="cancelled")
    aborts, late = gate.number(names.ABORTS), gate.number(names.TOKENS_AFTER_DISCONNECT)

    def free() -> float:
        began = time.monotonic()
        until("the engine is free", lambda: held(gate) == 0, within_s=FREE_WITHIN_S, every_s=0.005)
        return time.monotonic() - began

    yield free
    until(
        "every departure is counted",
        lambda: fleet.counted(names.REQUESTS, outcome="cancelled") == cancelled + clients,
        within_s=5,
    )
    assert 1 <= gate.number(names.ABORTS) - aborts <= clients, "who never came to the engine is not aborted there"
    assert 0 <= gate.number(names.TOKENS_AFTER_DISCONNECT) - late <= 16 * clients
    stands_still(gate)


def stands_still(gate: Gate) -> None:
    """Check that the engine makes no tokens for nobody: its counter does not move for half a second."""
    made = gate.engine(TOKENS_MADE)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.1)
    probes = 4  # the worker's own heartbeat may ask for a token in between
    assert gate.engine(TOKENS_MADE) - made <= probes


def ask(fleet: Fleet, body: dict[str, object], *, stream: bool) -> Wire:
    wire = Wire(fleet.platform.url)
    wire.post(CHAT, {**body, "stream": stream}, key=fleet.platform.demo_key)
    return wire


@both_ways
@pytest.mark.parametrize("rudely", [False, True], ids=["farewell", "reset"])
def test_a_client_leaves_in_decode(solo: Fleet, faults: FaultTable, stream: bool, rudely: bool) -> None:
    """Whoever leaves while tokens are made frees the engine within a second, and is counted as cancelled."""
    gate = chat_gate(solo)
    made = gate.engine(TOKENS_MADE)
    with counting(solo, gate, 1) as free, ask(solo, long_answer(), stream=stream) as wire:
        until("the engine decodes", lambda: gate.engine(TOKENS_MADE) > made + 4, within_s=20)
        if stream:
            assert next(wire.events())
        wire.leave(rudely=rudely)
        took_s = free()
    if not rudely:
        faults.add(
            f"client gone in decode ({'stream' if stream else 'unary'})", "engine free, outcome `cancelled`", took_s
        )


@both_ways
def test_a_client_leaves_in_prefill(solo: Fleet, faults: FaultTable, stream: bool) -> None:
    """Whoever leaves before the first token frees the engine within a second too."""
    gate = chat_gate(solo)
    with counting(solo, gate, 1) as free, ask(solo, long_prompt(11 + stream), stream=stream) as wire:
        until("the engine has the prompt", lambda: held(gate) == 1, within_s=5, every_s=0.005)
        wire.leave()
        took_s = free()
    faults.add(
        f"client gone in prefill ({'stream' if stream else 'unary'})", "engine free, outcome `cancelled`", took_s
    )


@both_ways
def test_a_client_leaves_the_queue(solo: Fleet, faults: FaultTable, stream: bool) -> None:
    """With the engine full, whoever leaves the queue frees its place, and those who run go on."""
    gate = chat_gate(solo)
    with counting(solo, gate, BATCH + 2) as free, ExitStack() as wires:
        runners = [wires.enter_context(ask(solo, long_answer(300), stream=True)) for _ in range(BATCH)]
        until("the engine is full", lambda: held(gate) == BATCH, within_s=20)
        queued = [wires.enter_context(ask(solo, long_answer(300), stream=stream)) for _ in range(2)]
        until("two wait", lambda: gate.load()["waiting"] >= 2, within_s=10, every_s=0.005)
        began = time.monotonic()
        for wire in queued:
            wire.leave()
        until("the queue is empty", lambda: held(gate) <= BATCH, within_s=FREE_WITHIN_S, every_s=0.005)
        took_s = time.monotonic() - began
        assert next(runners[0].events())
        for wire in runners:
            wire.leave()
        all_s = free()
    faults.add(f"client gone while queued ({'stream' if stream else 'unary'})", "place free, the batch goes on", took_s)
    faults.add(f"{BATCH} streams leave at once", "engine free, every one counted", all_s)
