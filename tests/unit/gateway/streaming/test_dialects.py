import asyncio
import json
import time
from collections.abc import Iterable

import pytest

from penstock.domain.outcome import FinishReason, Outcome
from penstock.domain.serving.request import Api, Prepared
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer, Call, Timings
from penstock.gateway.calls.lease import Lease
from penstock.gateway.streaming.continuity import Continuity
from penstock.gateway.streaming.frame import Frame
from penstock.gateway.streaming.stream_relay import StreamRelay
from tests.support.gateways.dispatch import FakeReply, render, stream_request
from tests.support.patience import patient
from tests.support.samples.calls import DUE, VERSION, principal

MESSAGES = [
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":9,"output_tokens":0}}}\n\n',  # noqa: E501
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"!"}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":2}}\n\n',  # noqa: E501
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
]

RESPONSES = [
    b'event: response.created\ndata: {"type":"response.created","response":{"status":"in_progress","usage":null}}\n\n',
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"Hi"}\n\n',
    b'event: response.completed\ndata: {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":1,"total_tokens":10}}}\n\n',  # noqa: E501
]

ENGINE_ERROR = {
    Api.CHAT: b'data: {"error":{"message":"secret insides","code":500}}\n\n',
    Api.MESSAGES: b'event: error\ndata: {"type":"error","error":{"type":"internal_error","message":"secret insides"}}\n\n',  # noqa: E501
    Api.RESPONSES: b'event: response.failed\ndata: {"response":{"status":"failed"}}\n\n',
}


async def relayed(api: Api, events: Iterable[bytes], *, ends: bool = True) -> tuple[FakeReply, Answer]:
    """Feed events to a relay, one by one."""
    request, reply = stream_request(api=api), FakeReply()
    came = Call(request=request, principal=principal(), timings=Timings(time.monotonic, 0.0))
    lease = Lease(opened_at=0.0, deadline_at=time.monotonic() + 5.0)
    call = came.chosen(VERSION, Prepared(prompt_tokens=7)).admitted(request, DUE, lease)
    frame = Frame(
        call=call,
        reply=reply,
        clock=time.monotonic,
        stall_s=5.0,
    )
    relay = StreamRelay(frame, Continuity(call, None, lambda end, reason: None), render, 5.0, lambda: None)
    relay.on_head(200, [])
    for event in events:
        relay.on_body(event)
    relay.on_end(None if ends else ConnectionResetError())
    async with asyncio.timeout(patient(1)):
        assert await relay.rest() is None
        return reply, await relay.answer()


ENGINE_REFUSAL = {
    Api.CHAT: b'data: {"error":{"message":"no such grammar","code":400}}\n\n',
    Api.MESSAGES: b'event: error\ndata: {"type":"error","error":{"message":"no such grammar","code":400}}\n\n',
}


@pytest.mark.parametrize("api", ENGINE_REFUSAL)
async def test_a_callers_mistake_that_is_found_late_is_the_callers(api: Api) -> None:
    """Odd schemas: vLLM finds them after a stream has begun; no worker is suspected, and no other one is asked."""
    before = [b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'] if api is Api.CHAT else MESSAGES[:1]
    reply, answer = await relayed(api, [*before, ENGINE_REFUSAL[api]])
    assert answer.outcome is Outcome.BAD_REQUEST
    assert b"engine_refused" in reply.body


@pytest.mark.parametrize("api", ENGINE_REFUSAL)
async def test_a_refusal_after_tokens_is_of_the_engines_own_answer(api: Api) -> None:
    """A parser that stumbles over what the model wrote is no mistake of the caller's."""
    token = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    before = [token] if api is Api.CHAT else MESSAGES[:3]
    reply, answer = await relayed(api, [*before, ENGINE_REFUSAL[api]])
    assert answer.outcome is Outcome.ENGINE_ERROR
    assert b"engine_error" in reply.body


@pytest.mark.parametrize(
    ("api", "events", "usage"),
    [
        (Api.MESSAGES, MESSAGES, Usage(prompt_tokens=9, output_tokens=2)),
        (Api.RESPONSES, RESPONSES, Usage(prompt_tokens=9, output_tokens=1, cached_tokens=4)),
    ],
)
async def test_other_apis_pass_whole(api: Api, events: list[bytes], usage: Usage) -> None:
    """Named events pass, a message's first with its tier; usage and reason are read; a comment precedes the last."""
    reply, answer = await relayed(api, events)
    lines = [line for line in reply.body.split(b"\n\n") if not line.startswith(b": penstock")]
    named = b"".join(events).replace(b'"usage":{', b'"usage":{"service_tier":"standard",', api is Api.MESSAGES)
    assert b"\n\n".join(lines) == named
    assert (answer.outcome, answer.usage, answer.finish) == (Outcome.OK, usage, FinishReason.STOP)
    assert reply.body.rindex(b": penstock") < reply.body.rindex(b"event: ")


@pytest.mark.parametrize(("api", "events"), [(Api.MESSAGES, MESSAGES), (Api.RESPONSES, RESPONSES)])
async def test_other_apis_break_in_band(api: Api, events: list[bytes]) -> None:
    """A stream without its last event ends in that API's error event."""
    reply, answer = await relayed(api, events[:-1])
    assert answer.outcome is Outcome.BROKEN_STREAM
    assert reply.writes[-1].startswith(b"event: error\ndata: ")
    assert b"stream_broken" in reply.writes[-1]


@pytest.mark.parametrize("api", [Api.CHAT, Api.MESSAGES, Api.RESPONSES])
async def test_engine_error_in_the_middle_becomes_ours(api: Api) -> None:
    """The engine's own error is replaced by ours: its insides stay inside; nothing after it passes."""
    first = {Api.CHAT: b'data: {"choices":[{"delta":{}}]}\n\n', Api.MESSAGES: MESSAGES[0], Api.RESPONSES: RESPONSES[0]}
    reply, answer = await relayed(api, [first[api], ENGINE_ERROR[api], b"data: [DONE]\n\n"])
    assert answer.outcome is Outcome.ENGINE_ERROR
    assert b"secret" not in reply.body
    assert b"[DONE]" not in reply.body
    assert reply.body.count(b"engine_error") == 1
    assert reply.finished == 1


async def test_a_request_that_its_engine_gave_up_is_no_end() -> None:
    """A dying engine says ``abort`` as if the answer had ended: the caller hears an error instead."""
    events = [
        b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}\n\n',
    ]
    reply, answer = await relayed(Api.CHAT, [*events, b"data: [DONE]\n\n"])
    assert answer.outcome is Outcome.ENGINE_ERROR
    assert b"abort" not in reply.body
    assert b"[DONE]" not in reply.body


async def test_text_that_looks_like_structure_is_text() -> None:
    """A model that writes the marks of our protocol ends, hides and counts nothing."""
    evil = 'data: [DONE]\n\n "usage":{"prompt_tokens":1} "finish_reason":"stop" data: {"error": 1} "choices":[{'
    event = (
        b"data: " + json.dumps({"choices": [{"delta": {"content": evil}}]}, separators=(",", ":")).encode() + b"\n\n"
    )
    reply, answer = await relayed(Api.CHAT, [event, event, b"data: [DONE]\n\n"])
    assert answer.outcome is Outcome.OK
    assert answer.usage == Usage(prompt_tokens=7, output_tokens=2, exact=False)
    assert reply.body.startswith(event + event)


async def test_everything_in_one_read() -> None:
    """A whole stream that comes in one piece is taken apart like any other."""
    events = [
        b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1},"metrics":{"queue_time_ms":1.5}}\n\n',
        b"data: [DONE]\n\n",
    ]
    reply, answer = await relayed(Api.CHAT, [b"".join(events)])
    assert answer.usage == Usage(prompt_tokens=3, output_tokens=1)
    assert b'"usage"' not in reply.body
    assert b'"queue":1.5' in reply.body


async def test_nothing_follows_the_end() -> None:
    """Bytes after the last event are dropped."""
    reply, _ = await relayed(Api.CHAT, [b"data: [DONE]\n\n", b'data: {"choices":[{}]}\n\n'], ends=False)
    assert reply.body.endswith(b"data: [DONE]\n\n")
    assert reply.finished == 1
