"""A crowd waits at our door and not in the engine: there order and bounds are ours."""

import re
import threading
import time
from dataclasses import dataclass, field

import httpx
import pytest

from penstock.telemetry.names import DOOR_WAITING
from tests.support.clients.sockets import Stream
from tests.support.failures.table import FaultTable
from tests.support.platforms.readings import Fleet, Gate
from tests.support.platforms.tenants import Strangers
from tests.support.samples.chat_bodies import PATIENT, chat

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

TENANTS = 4
EACH = 16
TOKENS = 8
HANDFUL = 4
"""The most requests that may wait inside the engine: those that came in while it computed a step."""
WAITING = "vllm:num_requests_waiting"
RUNNING = "vllm:num_requests_running"
PREEMPTED = "vllm:num_preemptions_total"


@dataclass
class Sampler:
    """Reads the engine's and the gate's numbers again and again, in a thread."""

    gate: Gate
    waiting: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)
    at_the_door: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with httpx.Client(base_url=self.gate.url, trust_env=False, timeout=10) as http:
            while not self._over.wait(0.1):
                engine, gate = http.get("/metrics").text, http.get("/penstock/metrics").text
                self.waiting.append(number(engine, WAITING))
                self.running.append(number(engine, RUNNING))
                self.at_the_door.append(number(gate, DOOR_WAITING.name))

    def stop(self) -> None:
        self._over.set()


def number(text: str, name: str) -> float:
    """Return the sum of a metric's samples in an exposition."""
    found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    assert found, name
    return sum(map(float, found))


def test_a_crowd_waits_at_the_door_and_not_in_the_engine(solo: Fleet, faults: FaultTable) -> None:
    """Of 64 requests at once a handful at most waits inside vLLM, none is preempted, all are answered."""
    gate = next(gate for gate in solo.gates() if gate.serves("smollm2"))
    people = Strangers(platform=solo.platform, name=f"crowd{time.time_ns():x}")
    keys = [people.tenant(str(i)) for i in range(TENANTS)]
    preempted = gate.engine(PREEMPTED)
    sampler = Sampler(gate)
    sampling = threading.Thread(target=sampler.run)
    sampling.start()
    began = time.monotonic()
    answers = burst(solo, keys)
    took_s = time.monotonic() - began
    sampler.stop()
    sampling.join(20)
    people.leave()
    assert answers == [True] * (TENANTS * EACH)
    assert gate.engine(PREEMPTED) == preempted
    assert max(sampler.at_the_door) > HANDFUL
    assert max(sampler.running) > 1
    assert max(sampler.waiting) <= HANDFUL
    faults.add(
        f"{TENANTS * EACH} streams at once by {TENANTS} tenants",
        f"at most {max(sampler.waiting):.0f} wait inside vLLM and {max(sampler.at_the_door):.0f} at the door, "
        f"{max(sampler.running):.0f} run, none preempted ({len(sampler.waiting)} samples)",
        took_s,
    )


def burst(fleet: Fleet, keys: list[str]) -> list[bool]:
    """Let every tenant ask so often at once and read its streams to the end; return which of them were whole."""
    bodies = [chat(f"{i} " + "word " * (20 + i), max_tokens=TOKENS, ignore_eos=True) for i in range(EACH)]
    asked = [(key, body) for body in bodies for key in keys]
    streams = [Stream(url=fleet.platform.url, key=key, body=body, says=PATIENT).start() for key, body in asked]
    return [stream.join(120).is_whole for stream in streams]
