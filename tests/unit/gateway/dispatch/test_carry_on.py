import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.errors import OverBudget
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tokens import Usage
from penstock.gateway.dispatch.retries import RetryBudget
from penstock.gateway.streaming.relays import RelaySettings
from penstock.telemetry import names
from tests.support.engines.stub import Behaviour, Mode
from tests.support.gateways.dispatch import Corridor, FakeReply, corridor, stream_request, until

TOKENS = 20


class StubReader:
    """Reads the stub engine's only token, when it may."""

    def __init__(self) -> None:
        self.is_asked = False
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def pieces(
        self, version: VersionEntry, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool
    ) -> list[str]:
        del version, skip_special
        self.is_asked = True
        await self.may_read.wait()
        assert list(prompt) == [1, 2, 3]
        return [" the"] * len(output)


def ask(api: Api = Api.CHAT, **body: object) -> InferenceRequest:
    """Return a stream's request that shows its usage."""
    plain = stream_request(TOKENS, api=api, include_usage=True)
    prompt = {"prompt": "hi", "messages": None} if api is Api.COMPLETIONS else {}
    return replace(plain, body={**plain.body, **prompt, **body}, cost=Cost(output_tokens=TOKENS))


def dying(way: Corridor, *after: int, mode: Mode = "die_after_token") -> None:
    """Let the first workers die after so many tokens."""
    way.reader = StubReader()
    for stub, tokens in zip(way.stubs, after, strict=False):
        stub.behaviour = Behaviour(mode=mode, after_tokens=tokens, step_ms=1)


def chunks(reply: FakeReply) -> list[dict[str, Any]]:
    lines = [line for line in reply.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line[6:]) for line in lines]


def text(reply: FakeReply) -> str:
    choices = [chunk["choices"][0] for chunk in chunks(reply) if chunk.get("choices")]
    return "".join(c.get("delta", c).get("content") or c.get("text") or "" for c in choices)


def counted(way: Corridor, outcome: str) -> float:
    lines = way.metrics.exposition().decode().splitlines()
    mine = [line for line in lines if line.startswith(f"{names.CONTINUATIONS.name}_total") and f'"{outcome}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in mine)


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
async def test_another_worker_goes_on(api: Api) -> None:
    """The caller reads one stream: all tokens once, one role, one finish, one usage of the whole, one end."""
    async with corridor(2) as way:
        dying(way, 6)
        reply = FakeReply()
        answer = await way.ask(ask(api), reply)
        assert way.picked == [0, 1]
        assert way.stubs[1].stats.last_body["max_tokens"] == TOKENS - 6
        assert len(way.stubs[1].stats.last_body["prompt"]) == 3 + 6
    assert text(reply) == " the" * TOKENS
    assert answer.outcome is Outcome.OK
    assert answer.usage == Usage(prompt_tokens=3, output_tokens=TOKENS)
    usages = [chunk["usage"] for chunk in chunks(reply) if "usage" in chunk]
    assert usages == [{"prompt_tokens": 3, "total_tokens": 3 + TOKENS, "completion_tokens": TOKENS}]
    finishes = [c["choices"][0]["finish_reason"] for c in chunks(reply) if c["choices"]]
    assert [reason for reason in finishes if reason] == ["length"]
    assert sum(b'"role"' in write for write in reply.writes) == (api is Api.CHAT)
    assert reply.body.count(b"[DONE]") == 1
    assert b'token_ids":[' not in reply.body
    assert (reply.finished, counted(way, "continued")) == (1, 1)


async def test_the_wire_of_the_rest() -> None:
    """The rest goes out under the same id, with the tenant's salt, as a completion of ids."""
    async with corridor(2) as way:
        dying(way, 3)
        await way.ask(ask(temperature=0.5), FakeReply())
        body, headers = way.stubs[1].stats.last_body, way.stubs[1].stats.last_headers
    assert body["prompt"] == [1, 2, 3, 278, 278, 278]
    assert (body["model"], body["cache_salt"], body["temperature"]) == ("toy@0123456789ab", "salt", 0.5)
    assert "messages" not in body
    assert headers["x-request-id"] == "req-1"


async def test_it_is_told_where_operators_look() -> None:
    """Attempts, moments and the last worker stand in the call; the stages add up to the time it took."""
    async with corridor(2) as way:
        dying(way, 5)
        began = time.monotonic()
        await way.ask(ask(), FakeReply())
        took_s = time.monotonic() - began
    call = way.call
    assert call is not None
    assert call.attempts.worker is not None
    assert (call.attempts.count, len(call.attempts.continued_at), call.attempts.worker.id) == (2, 1, "w1")
    assert sum(call.timings.seconds.values()) == pytest.approx(took_s, abs=0.05)
    assert call.timings.seconds[Stage.DECODE] > 0


async def test_the_lost_worker_is_blamed() -> None:
    """A worker that breaks streams is a failing one, also where the caller saw nothing of it."""
    async with corridor(2) as way:
        dying(way, 2)
        assert (await way.ask(ask(), FakeReply())).outcome is Outcome.OK
        assert way.breakers.known() == {"w0"}


async def test_a_stream_that_loses_a_second_worker_ends() -> None:
    """Two workers lost under one stream: it may be what kills them, so no third one is asked."""
    async with corridor(3) as way:
        dying(way, 6, 5)
        reply = FakeReply()
        answer = await way.ask(ask(), reply)
    assert way.picked == [0, 1]
    assert answer.outcome is Outcome.BROKEN_STREAM
    assert answer.usage.output_tokens == 11
    assert reply.body.count(b'"code":"stream_broken"') == 1


async def test_an_engines_error_in_the_middle_is_a_suspicion() -> None:
    """An error event after tokens comes from an engine that lives: another goes on, and the platform asks."""
    async with corridor(2) as way, way.probing():
        dying(way, 6, mode="error_after_token")
        way.stubs[0].behaviour.times = 1
        answer = await way.ask(ask(), FakeReply())
        await until(lambda: way.counted(names.PROBES, reason="answered", outcome="passed") == 1)
        assert not way.breakers.ejected(["w0", "w1"], time.monotonic())  # type: ignore[list-item]
    assert answer.outcome is Outcome.OK


async def test_a_refusal_of_the_next_is_passed_over() -> None:
    """A worker that does not take the rest is no end: the one after it is asked."""
    async with corridor(3) as way:
        dying(way, 6)
        way.stubs[1].behaviour = Behaviour(mode="refuse", reason="overloaded")
        reply = FakeReply()
        assert (await way.ask(ask(), reply)).outcome is Outcome.OK
    assert way.picked == [0, 1, 2]
    assert text(reply) == " the" * TOKENS


async def test_what_is_not_allowed_ends_in_band() -> None:
    """Two choices at once are not continued: one error, no end, and the bill of what was delivered."""
    async with corridor(2) as way:
        dying(way, 4)
        reply = FakeReply()
        answer = await way.ask(ask(n=2), reply)
        assert way.picked == [0]
        assert "return_token_ids" not in way.stubs[0].stats.last_body
    assert answer.outcome is Outcome.BROKEN_STREAM
    assert answer.usage == Usage(prompt_tokens=7, output_tokens=4, exact=False)
    assert b'"code":"stream_broken"' in reply.writes[-1]
    assert b"[DONE]" not in reply.body
    assert counted(way, "refused") == 1


@pytest.mark.parametrize("workers", [1, 2])
async def test_where_nobody_is_left_the_error_is_the_first_one(workers: int) -> None:
    """With no other worker the stream ends as it broke, not with what a second one would have said."""
    async with corridor(workers) as way:
        dying(way, 4)
        for stub in way.stubs[1:]:
            await stub.stop()
        way.max_attempts = 2
        reply = FakeReply()
        answer = await way.ask(ask(), reply)
    assert answer.outcome is Outcome.BROKEN_STREAM
    assert (answer.usage.output_tokens, answer.usage.exact) == (4, False)
    assert reply.body.count(b'"code":"stream_broken"') == 1
    assert b"[DONE]" not in reply.body
    assert (reply.finished, counted(way, "failed")) == (1, 1)


async def test_a_spent_retry_budget_ends_the_stream() -> None:
    """Continuations take from the same budget as retries: in a lasting outage they stop as well."""
    async with corridor(2) as way:
        dying(way, 4)
        way.budget = RetryBudget(ratio=0.0, capacity=0.5, floor_per_s=0.0)
        answer = await way.ask(ask(), FakeReply())
    assert way.picked == [0]
    assert answer.outcome is Outcome.BROKEN_STREAM


@pytest.mark.parametrize("delay_ms", [0, 5_000])
async def test_a_client_that_leaves_ends_the_continuation(delay_ms: int) -> None:
    """Whether the second worker prefills or decodes: it is free at once, and what came is counted."""
    async with corridor(2) as way:
        dying(way, 4)
        way.stubs[1].behaviour = Behaviour(delay_ms=delay_ms, step_ms=300)
        reply = FakeReply()
        task = asyncio.create_task(way.ask(ask(), reply))
        await until(lambda: way.stubs[1].stats.running == 1)
        if not delay_ms:
            await until(lambda: counted(way, "continued") == 1)
        reply.leave()
        answer = await task
        await until(lambda: way.stubs[1].stats.running == 0)
    assert answer.outcome is Outcome.CANCELLED
    assert answer.usage.output_tokens >= 4


async def test_the_deadline_holds_through_a_continuation() -> None:
    """A second worker has the time that the first one left."""
    async with corridor(2) as way:
        dying(way, 4)
        way.stubs[1].behaviour = Behaviour(delay_ms=10_000)
        reply = FakeReply()
        answer = await way.ask(ask(), reply, deadline_s=0.3)
        await until(lambda: way.stubs[1].stats.running == 0)
    assert answer.outcome is Outcome.DEADLINE
    assert b'"code":"deadline_exceeded"' in reply.writes[-1]


async def test_heartbeats_fill_the_gap() -> None:
    """While the second worker prefills, comments keep the caller's connection alive."""
    async with corridor(2) as way:
        way.settings = RelaySettings(heartbeat_s=0.05)
        dying(way, 4)
        way.stubs[1].behaviour = Behaviour(delay_ms=250)
        reply = FakeReply()
        assert (await way.ask(ask(), reply)).outcome is Outcome.OK
    assert b": waiting\n\n" in reply.writes


async def test_a_reader_that_pauses_in_the_gap_holds_the_next_worker_back() -> None:
    """Back-pressure outlives a worker: nothing is read for a reader that has no room, and all of it afterwards."""
    async with corridor(2) as way:
        dying(way, 4)
        way.reader = reader = StubReader()
        reader.may_read.clear()
        reply = FakeReply()
        task = asyncio.create_task(way.ask(ask(), reply))
        await until(lambda: reader.is_asked)
        reply.on_pause()
        reader.may_read.set()
        before = len(reply.writes)
        await until(lambda: way.stubs[1].stats.finished == 1)
        await asyncio.sleep(0.05)
        assert len(reply.writes) == before
        reply.on_resume()
        assert (await task).outcome is Outcome.OK
    assert text(reply) == " the" * TOKENS


async def test_limits_end_a_stream_between_two_workers() -> None:
    """An answer that may not grow any more ends, and whoever was asked for the rest is let go."""
    async with corridor(2) as way:
        dying(way, 4)
        way.stubs[1].behaviour = Behaviour(delay_ms=5_000)
        reply = FakeReply()
        task = asyncio.create_task(way.ask(ask(), reply))
        await until(lambda: way.stubs[1].stats.running == 1)
        assert way.lease is not None
        assert way.lease.end_early is not None
        way.lease.end_early(OverBudget())
        answer = await task
        await until(lambda: way.stubs[1].stats.running == 0)
    assert answer.outcome is Outcome.OVER_BUDGET
    assert reply.finished == 1
