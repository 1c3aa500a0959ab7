"""A newcomer beside a flood that has filled real vLLM: what it waits for is counted in the engine's own steps."""

import time
from statistics import median

import pytest

from penstock.worker.engines.stepping import MOST_STILL
from tests.support.clients.sockets import Stream
from tests.support.failures.table import FaultTable
from tests.support.platforms.readings import Fleet, Gate
from tests.support.platforms.tenants import Strangers
from tests.support.samples.chat_bodies import PATIENT, chat

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

SEATS = 32
TOKENS = 64
LONG = "word " * 1200
LATE = ("deadline_exceeded", "deadline_unreachable", "overloaded")
READS = 4
"""Questions of the newcomer, one after another."""


def flood(fleet: Fleet, key: str, *, prompt: str, callers: int) -> list[Stream]:
    """Let a tenant ask so often at once."""
    bodies = [chat(f"{i} {prompt}", max_tokens=TOKENS, ignore_eos=True) for i in range(callers)]
    return [Stream(url=fleet.platform.url, key=key, body=body, says=PATIENT).start() for body in bodies]


def tokens_between(streams: list[Stream], began: float, ended: float) -> int:
    """Return the most tokens that one stream made in a span of ``time.monotonic``."""
    return max(sum(began < at < ended for at in stream.times) for stream in streams)


def ask(fleet: Fleet, key: str, number: int) -> tuple[float, float]:
    """Ask a short question; return when it was asked and when the first token came."""
    began = time.monotonic()
    stream = Stream(url=fleet.platform.url, key=key, body=chat(f"{number} Who?", max_tokens=2)).start().join(120)
    assert stream.is_whole, stream.story
    return began, stream.times[0]


def until_full(gate: Gate, streams: list[Stream], running: int) -> None:
    """Wait until this number of the flood's requests are decoded."""
    end = time.monotonic() + 200
    while sum(len(stream.times) > 1 for stream in streams) < running:
        assert time.monotonic() < end, gate.engine("vllm:num_requests_running")
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("prompt", "callers", "full"),
    [
        pytest.param("Hi", SEATS + 8, SEATS, id="slots"),
        pytest.param(LONG, 10, 3, id="kv", marks=pytest.mark.drill),  # prompts take minutes on a machine that is shared
    ],
)
def test_a_newcomer_waits_for_steps_and_not_for_answers(
    solo: Fleet, faults: FaultTable, prompt: str, callers: int, full: int
) -> None:
    """C2: beside a flood in all seats or all KV blocks a first token comes within a few of the flood's own steps."""
    gate = next(gate for gate in solo.gates() if gate.serves("smollm2"))
    people = Strangers(platform=solo.platform, name=f"steps{time.time_ns():x}")
    keys = [people.tenant(name) for name in ("flood", "reader")]
    streams = flood(solo, keys[0], prompt=prompt, callers=callers)
    until_full(gate, streams, full)
    waits = [tokens_between(streams, *ask(solo, keys[1], number)) for number in range(READS)]
    ended = [how_it_ended(stream.join(300)) for stream in streams]
    people.leave()
    assert median(waits) <= MOST_STILL
    assert max(waits) < TOKENS / 4, "it would have waited for an answer of the flood"
    assert set(ended) <= {"whole", *LATE}, (
        "what was preempted goes on to its end, or to its deadline or queue timeout on a busy machine"
    )
    assert "whole" in ended
    faults.add(f"a newcomer beside {callers} streams of one tenant", f"waits for {waits} of its steps")


def how_it_ended(stream: Stream) -> str:
    """Return ``whole``, or the code of its error."""
    return "whole" if stream.is_whole else str((stream.error or {}).get("code") or stream.story)
