"""Clients that leave: queued, in prefill, in decode; streaming or not. Engine and lease are free within a second."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from penstock.telemetry import names
from penstock.telemetry.names import IN_FLIGHT
from tests.support.clients.sockets import Wire
from tests.support.failures.table import FaultTable
from tests.support.patience import patient, until
from tests.support.platforms.readings import Fleet, Gate
from tests.support.samples.chat_bodies import CHAT, PATIENT, long_answer, long_prompt

FREE_WITHIN_S = 1.0
"""On a quiet machine."""
_IN_FLIGHT = re.compile(rf"^{IN_FLIGHT.name}{{[^}}]*}} (\S+)$", re.MULTILINE)


@dataclass(kw_only=True)
class Departures:
    """Seconds from leaving to a free place, and to a settled lease, of every client that left in some phase."""

    freed_s: dict[str, list[float]] = field(default_factory=dict)
    settled_s: dict[str, list[float]] = field(default_factory=dict)
    allowed_s: float = FREE_WITHIN_S
    """The promise on the machine as busy as it was."""

    def leave(self, phase: str, fleet: Fleet, gate: Gate, wires: list[Wire], *, rudely: bool = False) -> float:
        """Let these clients leave at once, note when each is gone; return the seconds until all are, or fail."""
        self.allowed_s = max(self.allowed_s, patient(FREE_WITHIN_S))
        freed, settled = self.freed_s.setdefault(phase, []), self.settled_s.setdefault(phase, [])
        with httpx.Client(trust_env=False, timeout=5) as http:
            held, in_flight = _held(http, gate), _in_flight(http, fleet)
            began = time.monotonic()
            for wire in wires:
                wire.leave(rudely=rudely)
            goals = held - len(wires), in_flight - len(wires)
            while held > goals[0] or in_flight > goals[1]:
                now = max(goals[0], _held(http, gate)), max(goals[1], _in_flight(http, fleet))
                took_s = time.monotonic() - began
                freed += [took_s] * int(held - now[0])
                settled += [took_s] * int(in_flight - now[1])
                held, in_flight = min(held, now[0]), min(in_flight, now[1])
                if took_s > self.allowed_s:
                    raise AssertionError(f"{phase}: {held:g} held, {in_flight:g} in flight after {took_s:.2f} s")
        return time.monotonic() - began


def quantile(seconds: list[float], q: float) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def _held(http: httpx.Client, gate: Gate) -> float:
    load = http.get(f"{gate.url}/penstock/load").json()
    return float(load["running"] + load["waiting"])


def _in_flight(http: httpx.Client, fleet: Fleet) -> float:
    return sum(float(value) for value in _IN_FLIGHT.findall(http.get(fleet.platform.metrics_url).text))


pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

BATCH = 32
DECODING = 9
PREFILLS = 8
QUEUED = 10
ENOUGH = 100
TOKENS_MADE = "vllm:generation_tokens_total"
LATE_TOKENS = 4
"""Tokens that an engine may make for a client that has left, on average: it computes a step or two ahead."""
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "unary"])


def chat_gate(fleet: Fleet) -> Gate:
    return next(gate for gate in fleet.gates() if gate.serves("smollm2"))


def held(gate: Gate) -> float:
    load = gate.load()
    return load["running"] + load["waiting"]


@pytest.fixture(scope="module")
def departures() -> Departures:
    """Return the times of all departures of this module."""
    return Departures()


@contextmanager
def counting(fleet: Fleet, gate: Gate, clients: int) -> Iterator[None]:
    """Check afterwards that every departure was counted, and that the engine made next to nothing for it."""
    cancelled = fleet.counted(names.REQUESTS, outcome="cancelled")
    aborts, late = gate.number(names.ABORTS), gate.number(names.TOKENS_AFTER_DISCONNECT)
    yield
    until(
        "every departure is counted",
        lambda: fleet.counted(names.REQUESTS, outcome="cancelled") == cancelled + clients,
        within_s=5,
    )
    assert 1 <= gate.number(names.ABORTS) - aborts <= clients, "who never came to the engine is not aborted there"
    assert 0 <= gate.number(names.TOKENS_AFTER_DISCONNECT) - late <= LATE_TOKENS * clients
    stands_still(gate)


def stands_still(gate: Gate) -> None:
    """Check that the engine makes no abandoned tokens: its counter does not move for half a second."""
    made = gate.engine(TOKENS_MADE)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.1)
    probes = 4  # the worker's own heartbeat may ask for a token in between
    assert gate.engine(TOKENS_MADE) - made <= probes


def ask(fleet: Fleet, body: dict[str, object], *, stream: bool) -> Wire:
    wire = Wire(fleet.platform.url)
    wire.post(CHAT, {**body, "stream": stream}, key=fleet.platform.demo_key, headers=PATIENT)
    return wire


@both_ways
@pytest.mark.parametrize("rudely", [False, True], ids=["farewell", "reset"])
def test_clients_leave_in_decode(solo: Fleet, departures: Departures, stream: bool, rudely: bool) -> None:
    """A departure during decode frees the engine within a second, and is counted as cancelled."""
    gate = chat_gate(solo)
    made = gate.engine(TOKENS_MADE)
    with counting(solo, gate, DECODING), ExitStack() as open_wires:
        wires = [open_wires.enter_context(ask(solo, long_answer(), stream=stream)) for _ in range(DECODING)]
        until("all decode", lambda: gate.engine(TOKENS_MADE) > made + 4 * DECODING, within_s=20)
        if stream:
            assert all(next(wire.events()) for wire in wires)
        departures.leave(phase("decode", stream), solo, gate, wires, rudely=rudely)


@both_ways
def test_clients_leave_in_prefill(solo: Fleet, departures: Departures, stream: bool) -> None:
    """A departure before the first token frees the engine within a second too."""
    gate = chat_gate(solo)
    with counting(solo, gate, PREFILLS):
        for i in range(PREFILLS):
            with ask(solo, long_prompt(time.monotonic_ns() + i), stream=stream) as wire:
                until("the engine has the prompt", lambda: held(gate) == 1, within_s=5, every_s=0.005)
                departures.leave(phase("prefill", stream), solo, gate, [wire])


@both_ways
def test_clients_leave_the_queue(solo: Fleet, departures: Departures, stream: bool) -> None:
    """With the engine full, a departure from the queue frees its place, and running requests go on."""
    gate = chat_gate(solo)
    with counting(solo, gate, BATCH + QUEUED), ExitStack() as wires:
        runners = [wires.enter_context(ask(solo, long_answer(300), stream=True)) for _ in range(BATCH)]
        until("the engine is full", lambda: held(gate) == BATCH, within_s=20)
        queued = [wires.enter_context(ask(solo, long_answer(300), stream=stream)) for _ in range(QUEUED)]
        until("they wait", lambda: held(gate) == BATCH + QUEUED, within_s=10, every_s=0.005)
        departures.leave(phase("queue", stream), solo, gate, queued)
        assert next(runners[0].events())
        departures.leave(phase("decode", stream=True), solo, gate, runners)


def phase(name: str, stream: bool) -> str:
    return f"{name} ({'stream' if stream else 'unary'})"


def test_every_departure_is_over_in_time(departures: Departures, faults: FaultTable) -> None:
    """Over all phases together a place is free and a lease settled within a second, at the 99th percentile too."""
    freed = [second for seconds in departures.freed_s.values() for second in seconds]
    settled = [second for seconds in departures.settled_s.values() for second in seconds]
    if len(departures.freed_s) < len({phase(n, s) for n in ("decode", "prefill", "queue") for s in (True, False)}):
        pytest.skip("the tests before were not all run")
    assert len(freed) == len(settled) >= ENOUGH
    for name in sorted(departures.freed_s):
        tell(faults, name, departures.freed_s[name], departures.settled_s[name])
    tell(faults, "all phases", freed, settled)
    assert quantile(freed, 0.99) < departures.allowed_s
    assert quantile(settled, 0.99) < departures.allowed_s


def tell(faults: FaultTable, name: str, freed: list[float], settled: list[float]) -> None:
    said = [f"{quantile(seconds, q) * 1e3:.0f}" for seconds in (freed, settled) for q in (0.5, 0.99)]
    effect = f"slot free after {said[0]}, p99 {said[1]} ms; lease settled after {said[2]}, p99 {said[3]} ms"
    faults.add(f"{len(freed)} clients gone: {name}", effect, quantile(freed, 0.99))
