"""A worker dies in the middle of a stream: the caller reads the answer of an unbroken run, and pays for it once."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import asyncpg
import pytest

from penstock.connectors.postgres.embedded import dsn_of
from penstock.telemetry import names
from tests.support.clients.sockets import Stream
from tests.support.failures.deaths import (
    Kill,
    agent_dies,
    core_dies,
    engine_dies,
    engine_freezes,
    the_busy_one,
    until_whole_again,
)
from tests.support.failures.table import CANARY, FaultTable
from tests.support.patience import until
from tests.support.platforms.readings import Fleet, Gate
from tests.support.samples.chat_bodies import CHAT, chat, long_answer

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

COMPLETIONS = "/v1/completions"
TOKENS = 120
ENOUGH = 12
"""Events with text before the worker dies."""
DEATHS = [
    pytest.param(engine_dies, "`kill -9` of the engine", id="engine"),
    pytest.param(core_dies, "the engine's core killed as for want of memory", id="oom", marks=pytest.mark.drill),
    pytest.param(agent_dies, "`kill -9` of the worker's agent", id="agent", marks=pytest.mark.drill),
    pytest.param(engine_freezes, "engine frozen with SIGSTOP", id="sigstop", marks=pytest.mark.drill),
]
NUMBERS = "List the numbers from 1 to 60, one on each line."
"""The model is sure of each token of its answer: what an engine prefills and what it decodes differs by rounding, and
where two tokens are as likely in bfloat16, that decides."""
MANY_BYTES = "日本語 🍎🍌 日本語 🍎🍌 日本語 🍎🍌"
USAGE = {"stream_options": {"include_usage": True}}


def asked(pair: Fleet, body: Mapping[str, object], path: str = CHAT) -> Stream:
    return Stream(url=pair.platform.url, key=pair.platform.demo_key, body=body, path=path).start()


def struck(pair: Fleet, stream: Stream, kill: Kill) -> tuple[Gate, float]:
    """Kill the stream's worker in mid-answer; return it and the time."""
    until("tokens come", lambda: stream.tokens >= ENOUGH, within_s=30, every_s=0.002)
    lost = the_busy_one(pair)
    kill(lost)
    return lost, time.monotonic()


def text(stream: Stream) -> str:
    choices = [event["choices"][0] for event in stream.events if event.get("choices")]
    return "".join(choice.get("delta", choice).get("content") or choice.get("text") or "" for choice in choices)


def finishes(stream: Stream) -> list[str]:
    choices = [event["choices"][0] for event in stream.events if event.get("choices")]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


def usage(stream: Stream) -> list[dict[str, int]]:
    """Return what the stream says it used; cached tokens differ from run to run."""
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    return [{name: event["usage"][name] for name in counts} for event in stream.events if event.get("usage")]


def rows(pair: Fleet, stream: Stream) -> list[Mapping[str, Any]]:
    """Return the ledger's rows of this request, once there are any."""
    found: list[Mapping[str, Any]] = []

    async def read() -> None:
        connection = await asyncpg.connect(dsn_of(pair.platform.home / "postgres"))
        try:
            mine = await connection.fetch("select * from ledger where request = $1", stream.headers["x-request-id"])
            found[:] = [dict(row) for row in mine]
        finally:
            await connection.close()

    def look() -> bool:
        asyncio.run(read())
        return bool(found)

    until("the row is in the ledger", look, within_s=30, every_s=0.1)
    return found


def shapes(stream: Stream) -> set[tuple[Any, ...]]:
    return {(event["id"], event["object"], event["created"], event["model"]) for event in stream.events}


@pytest.mark.parametrize(("kill", "what"), DEATHS)
def test_a_chat_reads_like_an_unbroken_one(pair: Fleet, faults: FaultTable, kill: Kill, what: str) -> None:
    """At temperature 0 text, finish and usage are those of one worker's answer, under one id, in one ledger row."""
    body = chat(NUMBERS, max_tokens=TOKENS, ignore_eos=True, **USAGE)
    whole = asked(pair, body).join(60)
    assert whole.is_whole, whole.story
    continued = pair.counted(names.CONTINUATIONS, outcome="continued")
    stream = asked(pair, body)
    lost, struck_at = struck(pair, stream, kill)
    stream.join(60)
    assert stream.is_whole, stream.story
    assert text(stream) == text(whole)
    assert finishes(stream) == finishes(whole) == ["length"]
    assert usage(stream) == usage(whole)
    assert usage(whole)[0]["completion_tokens"] == TOKENS
    assert len(shapes(stream)) == 1
    assert sum("role" in choice["delta"] for event in stream.events for choice in event["choices"]) == 1
    assert not any(choice.get("token_ids") for event in stream.events for choice in event["choices"])
    assert pair.counted(names.CONTINUATIONS, outcome="continued") == continued + 1
    logged = pair.logged(str(stream.headers["x-request-id"]))
    assert (logged["outcome"], logged["continued"], logged["attempt"]) == ("ok", 1, 2)
    assert logged["worker"] != lost.worker
    (row,) = rows(pair, stream)
    (unbroken,) = rows(pair, whole)
    counts = ("outcome", "prompt_tokens", "output_tokens")
    assert [row[name] for name in counts] == [unbroken[name] for name in counts]
    assert (row["continued"], unbroken["continued"]) == (1, 0)
    gap_s = next(b - a for a, b in zip(stream.times, stream.times[1:], strict=False) if b > struck_at)
    faults.add(f"{what}, in the middle of a stream", "continued at the other worker; the caller waits", gap_s)
    until_whole_again(pair, lost)


@pytest.mark.drill
def test_a_completion_of_many_byte_characters_reads_like_an_unbroken_one(pair: Fleet) -> None:
    """Characters that take several tokens are whole, wherever between them the worker died; stop strings are heeded."""
    body = {
        "model": "smollm2",
        "prompt": f"{CANARY} {MANY_BYTES}",
        "max_tokens": TOKENS,
        "temperature": 0,
        "ignore_eos": True,
        "stop": ["no such string at all"],
        **USAGE,
    }
    whole = asked(pair, body, COMPLETIONS).join(60)
    stream = asked(pair, body, COMPLETIONS)
    lost, _ = struck(pair, stream, engine_dies)
    stream.join(60)
    assert stream.is_whole, stream.story
    assert text(stream) == text(whole)
    assert "�" not in text(stream)
    assert len(text(stream).encode()) > 2 * len(text(stream))
    assert usage(stream) == usage(whole)
    until_whole_again(pair, lost)


@pytest.mark.drill
def test_what_another_worker_could_not_know_ends_in_band(pair: Fleet) -> None:
    """Log probabilities are not continued: one error of its own code, no false end, and the bill of what came."""
    refused = pair.counted(names.CONTINUATIONS, outcome="refused")
    stream = asked(pair, long_answer(600, logprobs=True))
    lost, _ = struck(pair, stream, engine_dies)
    stream.join(30)
    assert stream.error is not None, stream.story
    assert stream.error["code"] in {"stream_broken", "engine_error"}
    assert stream.error["request_id"] == stream.headers["x-request-id"]
    assert not stream.done
    assert not stream.cut
    assert pair.counted(names.CONTINUATIONS, outcome="refused") == refused + 1
    (row,) = rows(pair, stream)
    assert row["outcome"] in {"broken_stream", "engine_error"}
    assert ENOUGH <= row["output_tokens"] <= len(stream.events)
    with pair.platform.http() as http:
        assert http.post(CHAT, json=chat("Hi")).status_code == 200
    until_whole_again(pair, lost)


@pytest.mark.drill
def test_with_nobody_left_a_stream_ends_in_band(pair: Fleet) -> None:
    """Both workers die: the error is in band, and the bill is of what was delivered."""
    stream = asked(pair, long_answer(1500))
    until("tokens come", lambda: stream.tokens >= ENOUGH, within_s=30, every_s=0.002)
    gates = pair.gates()
    for gate in sorted(gates, key=lambda gate: bool(gate.load().get("running"))):
        engine_dies(gate)
    stream.join(60)
    assert stream.error is not None, stream.story
    assert not stream.done
    (row,) = rows(pair, stream)
    assert row["output_tokens"] >= stream.tokens
    for gate in gates:
        until_whole_again(pair, gate)
