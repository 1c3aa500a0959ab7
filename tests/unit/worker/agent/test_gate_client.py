"""The wire between an agent and an engine of another release: what is missing has a default, or is a refusal."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from typing import Any

import pytest

from penstock.domain.command_error import CommandError
from penstock.domain.errors import EngineError
from penstock.domain.ids import VersionId
from penstock.domain.serving.report import Load
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.learning import FIRST_STEPS, Learning
from penstock.worker.agent.measuring import Measuring
from penstock.worker.engines.translate import EngineNumbers
from tests.support.clock import ManualClock

LOAD = Load(running=1, waiting=2, queued_tokens=3, kv_used_ratio=0.5, wait_s=1.0, pace_per_s=9.0)
STATE: dict[str, Any] = {"load": asdict(LOAD), "in_flight": 1, "inside": 2, "draining": False}
NUMBERS = EngineNumbers(values={})


@asynccontextmanager
async def gate(body: bytes, dies_at: bytes = b"POST /none") -> AsyncIterator[GateClient]:
    """Return the client of a gate that answers this to each question over a real socket, and hangs up at one path."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
        await reader.readexactly(length)
        if dies_at in head:
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield GateClient(
            url=f"http://127.0.0.1:{port}", version=VersionId("m@1"), ticket_key=b"k" * 32, clock=ManualClock()
        )


@pytest.mark.parametrize("missing", [one.name for one in fields(Load)])
async def test_a_figure_that_an_older_gate_does_not_tell_has_its_default(missing: str) -> None:
    """A rolling restart goes on: each figure of the load was new once."""
    load = {name: value for name, value in STATE["load"].items() if name != missing}
    async with gate(json.dumps({**STATE, "load": load}).encode()) as client:
        state = await client.observe(NUMBERS, still=False)
    assert asdict(state.load) == {**asdict(LOAD), missing: getattr(Load(), missing)}
    assert (state.in_flight, state.inside) == (1, 2)


async def test_a_field_that_a_newer_gate_tells_is_passed_over() -> None:
    """In the state and in its load."""
    newer = {**STATE, "load": {**STATE["load"], "newer": 1}, "newest": {}}
    async with gate(json.dumps(newer).encode()) as client:
        assert (await client.observe(NUMBERS, still=False)).load == LOAD


@pytest.mark.parametrize("body", [b"{}", b"[]", b"{", b"7", json.dumps({**STATE, "in_flight": "x"}).encode()])
async def test_a_state_that_cannot_be_read_is_an_error_of_the_engine(body: bytes) -> None:
    """The agent's loops take that for a question without an answer."""
    async with gate(body) as client:
        with pytest.raises(EngineError):
            await client.observe(NUMBERS, still=False)


@pytest.mark.parametrize(
    "told", [{}, {"steps": FIRST_STEPS}, {"steps": FIRST_STEPS, "points": [[1, 2]]}, {"points": 7}]
)
def test_a_step_log_of_another_release_teaches_nothing(told: dict[str, Any]) -> None:
    """Neither a missing field nor points of another form end the agent."""
    learning = Learning(ManualClock())
    assert not learning.look(told)
    assert learning.curve is None


async def test_an_engine_that_ends_while_it_is_measured_is_told_in_words() -> None:
    """Whichever of a round's requests broke first: one sentence and the remedy."""
    async with gate(b"{}", dies_at=b"/v1/completions") as client:
        measuring = Measuring(client=client, clock=ManualClock(), chance=random.Random(1), note=print)
        with pytest.raises(CommandError, match="The worker did not answer: no HTTP answer from"):
            await measuring.of_engine(max_seqs=4, max_model_len=512, block_size=16, most_s=60.0)
