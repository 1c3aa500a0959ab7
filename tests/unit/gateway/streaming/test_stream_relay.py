import asyncio
import json
import time
from dataclasses import replace

import pytest
from openai._streaming import SSEDecoder

from penstock.domain.errors import DeadlineExceeded
from penstock.domain.outcome import FinishReason, Outcome
from penstock.domain.serving.request import Api
from penstock.domain.tokens import Usage
from penstock.gateway.streaming.relays import RelaySettings
from tests.support.engines.stub import Behaviour
from tests.support.gateways.dispatch import FakeReply, corridor, stream_request, until


def chunks(reply: FakeReply) -> list[dict[str, object]]:
    """Return the decoded events, comments and the end left out."""
    lines = [line for line in reply.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line[6:]) for line in lines]


async def test_stream_passes_through() -> None:
    """Tokens arrive as the engine made them, then one end; usage is hidden from who did not ask, yet counted."""
    async with corridor() as way:
        reply = FakeReply()
        answer = await way.ask(stream_request(5), reply)
    assert (reply.status, reply.headers[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
    assert reply.headers[b"x-penstock-version"] == b"toy@0123456789ab"
    assert len(chunks(reply)) == 6
    assert not any("usage" in chunk for chunk in chunks(reply))
    assert reply.body.endswith(b"data: [DONE]\n\n")
    assert reply.body.count(b"[DONE]") == 1
    assert reply.finished == 1
    assert answer.outcome is Outcome.OK
    assert answer.usage == Usage(prompt_tokens=11, output_tokens=5)
    assert answer.finish is FinishReason.LENGTH
    assert answer.ttft_s is not None
    assert len(answer.itl_s) >= 1


async def test_a_slow_upload_is_no_wait_for_the_first_token() -> None:
    """Who takes half a minute to send its prompt has waited for the platform only from then on."""
    async with corridor() as way:
        way.upload_s = 30.0
        asked = stream_request(1)
        answer = await way.ask(replace(asked, arrived_at=asked.arrived_at - 30.0), FakeReply())
    assert answer.ttft_s is not None
    assert 0.0 < answer.ttft_s < 15.0


async def test_usage_is_shown_to_who_asks() -> None:
    """With ``include_usage`` the last chunk has it."""
    async with corridor() as way:
        reply = FakeReply()
        await way.ask(stream_request(3, include_usage=True), reply)
    assert chunks(reply)[-1]["usage"] == {"prompt_tokens": 11, "total_tokens": 14, "completion_tokens": 3}


async def test_breakdown_comes_as_a_comment_that_the_sdk_skips() -> None:
    """Before the end a comment says where the time went; OpenAI's own decoder sees the end and no more."""
    async with corridor() as way:
        reply = FakeReply()
        await way.ask(stream_request(3), reply)
    comment = next(line for line in reply.body.split(b"\n") if line.startswith(b": penstock "))
    told = json.loads(comment.removeprefix(b": penstock "))
    assert told["version"] == "toy@0123456789ab"
    assert {"route", "prefill", "decode"} <= told["stages_ms"].keys()
    events = list(SSEDecoder().iter_bytes(iter([reply.body])))
    assert [e.data for e in events if not e.data.startswith("{")] == ["[DONE]"]


@pytest.mark.parametrize("pieces", [2, 7])
async def test_cut_events_are_made_whole(pieces: int) -> None:
    """Events cut on the way leave whole."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(pieces=pieces, step_ms=1)
        reply = FakeReply()
        answer = await way.ask(stream_request(4), reply)
    assert answer.usage.output_tokens == 4
    assert len(chunks(reply)) == 5
    assert all(write.endswith(b"\n\n") for write in reply.writes)


async def test_first_token_is_passed_on_at_once() -> None:
    """Nothing is gathered: the first token is out long before the second comes."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(step_ms=100)
        reply = FakeReply()
        await way.ask(stream_request(3), reply)
    assert reply.written_at[-1] - reply.written_at[0] > 0.15


async def test_heartbeats_fill_the_silence() -> None:
    """While nothing comes, comments keep the connection alive and commit the status."""
    async with corridor() as way:
        way.settings = RelaySettings(heartbeat_s=0.03)
        way.stubs[0].behaviour = Behaviour(delay_ms=100)
        reply = FakeReply()
        answer = await way.ask(stream_request(2), reply)
    assert reply.writes[0] == b": waiting\n\n"
    assert reply.writes.count(b": waiting\n\n") >= 2
    assert answer.outcome is Outcome.OK
    assert answer.ttft_s is not None
    assert answer.ttft_s > 0.09


async def test_failure_after_a_heartbeat_is_told_in_band() -> None:
    """Once a heartbeat has gone out there is no status any more: the error is an event."""
    async with corridor(1) as way:
        way.settings, way.max_attempts = RelaySettings(heartbeat_s=0.02), 1
        way.stubs[0].behaviour = Behaviour(mode="error", delay_ms=50)
        reply = FakeReply()
        answer = await way.ask(stream_request(2), reply)
    assert answer.outcome is Outcome.ENGINE_ERROR
    assert reply.status == 200
    assert b'data: {"error":{"code":"engine_error"' in reply.writes[-1]
    assert b"[DONE]" not in reply.body


async def test_retry_after_a_heartbeat_is_invisible() -> None:
    """A heartbeat is no token: another worker may still answer."""
    async with corridor(2) as way:
        way.settings = RelaySettings(heartbeat_s=0.02)
        way.stubs[0].behaviour = Behaviour(mode="reset", delay_ms=50)
        way.stubs[1].behaviour = Behaviour()
        way.stubs[0].behaviour = Behaviour(mode="error", delay_ms=50)
        reply = FakeReply()
        answer = await way.ask(stream_request(3), reply)
    assert answer.outcome is Outcome.OK
    assert reply.body.endswith(b"data: [DONE]\n\n")


async def test_deadline_in_a_stream_is_told_in_band() -> None:
    """Past the deadline the engine is freed and the stream ends with an error, without a fake end."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(step_ms=10)
        reply = FakeReply()
        answer = await way.ask(stream_request(1_000), reply, deadline_s=0.08)
        await until(lambda: way.stubs[0].stats.running == 0)
    assert (answer.outcome, answer.finish) == (Outcome.DEADLINE, FinishReason.DEADLINE)
    assert b'"code":"deadline_exceeded"' in reply.writes[-1]
    assert b"[DONE]" not in reply.body
    assert reply.finished == 1


async def test_deadline_before_the_first_token_is_a_status() -> None:
    """Before anything was sent the edge answers with a status."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(delay_ms=5_000)
        reply = FakeReply()
        with pytest.raises(DeadlineExceeded):
            await way.ask(stream_request(), reply, deadline_s=0.5)
    assert not reply.started


async def test_broken_stream_counts_what_went_by() -> None:
    """When the engine dies, usage is what was delivered, and says that it is not exact."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(mode="die_after_token", after_tokens=4)
        answer = await way.ask(stream_request(50), FakeReply())
    assert answer.usage == Usage(prompt_tokens=7, output_tokens=4, exact=False)
    assert answer.finish is FinishReason.ERROR


async def test_client_gone_in_decode() -> None:
    """A client that leaves mid-stream frees the engine at once; its tokens are counted."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(step_ms=5)
        reply = FakeReply()
        task = asyncio.create_task(way.ask(stream_request(1_000), reply))
        await until(lambda: len(reply.writes) > 5)
        reply.leave()
        answer = await task
        await until(lambda: way.stubs[0].stats.running == 0)
        assert way.stubs[0].stats.aborted == 1
    assert answer.outcome is Outcome.CANCELLED
    assert answer.usage.output_tokens > 3
    assert not answer.usage.exact


async def test_slow_reader_holds_the_engine_back_and_is_cut_off() -> None:
    """A full buffer stops the reading of the worker; one that stays full ends the stream."""
    async with corridor() as way:
        way.settings = RelaySettings(stall_s=0.1)
        way.stubs[0].behaviour = Behaviour(step_ms=2)
        reply = FakeReply()
        task = asyncio.create_task(way.ask(stream_request(10_000), reply))
        await until(lambda: len(reply.writes) > 3)
        reply.on_pause()
        before = len(reply.writes)
        await asyncio.sleep(0.05)
        assert len(reply.writes) == before
        answer = await task
        await until(lambda: way.stubs[0].stats.running == 0)
        assert (way.metrics.registry.get_sample_value("penstock_reader_paused_seconds_total") or 0.0) >= 0.1
    assert answer.outcome is Outcome.SLOW_READER
    assert reply.aborted == 1


async def test_reader_that_catches_up_goes_on() -> None:
    """A reader that has room again in time gets everything, and no gap between tokens has its pauses in it."""
    async with corridor() as way:
        way.settings = RelaySettings(stall_s=2.0)
        way.stubs[0].behaviour = Behaviour(step_ms=20)
        reply = FakeReply()
        task = asyncio.create_task(way.ask(stream_request(100), reply))
        began = time.monotonic()
        for _ in range(4):
            await asyncio.sleep(0.02)
            reply.on_pause()
            await asyncio.sleep(0.1)
            reply.on_resume()
        answer = await task
        took_s = time.monotonic() - began
        paused = way.metrics.registry.get_sample_value("penstock_reader_paused_seconds_total")
    assert (answer.outcome, answer.usage.output_tokens) == (Outcome.OK, 100)
    assert len(chunks(reply)) == 101
    assert paused is not None
    assert paused >= 0.4, "four pauses of a tenth of a second each are counted"
    assert sum(answer.itl_s) + paused <= took_s
    assert way.call is not None
    assert way.call.timings.paused_s == pytest.approx(paused)


async def test_frozen_engine_ends_with_the_deadline() -> None:
    """An engine that stops in the middle does not hold the client for ever."""
    async with corridor() as way:
        way.stubs[0].behaviour = Behaviour(mode="freeze_after_token", after_tokens=2)
        reply = FakeReply()
        answer = await way.ask(stream_request(), reply, deadline_s=0.1)
    assert answer.outcome is Outcome.DEADLINE
    assert b"deadline_exceeded" in reply.writes[-1]


async def test_completions_stream() -> None:
    """Completions stream by the same rules."""
    async with corridor() as way:
        reply = FakeReply()
        answer = await way.ask(stream_request(4, api=Api.COMPLETIONS), reply)
    assert answer.usage.output_tokens == 4
    assert len(chunks(reply)) == 4
