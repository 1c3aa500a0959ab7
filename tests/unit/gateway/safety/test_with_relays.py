"""Guards under the real relays: a match that blocks frees the engine's seat, and the answer's outcome is filtered."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from penstock.domain.errors import PenstockError, StreamBroken
from penstock.domain.outcome import FinishReason, Outcome
from penstock.domain.serving.request import Api, Prepared
from penstock.domain.tenancy.cost import Cost
from penstock.filters import shipped
from penstock.filters.hold import Compiled
from penstock.filters.pack import Where, strictest
from penstock.gateway.calls.call import Admitted, Call, Timings
from penstock.gateway.calls.lease import Lease
from penstock.gateway.safety.judging import Judgement
from penstock.gateway.safety.stream_guard import StreamGuard
from penstock.gateway.safety.whole_guard import WholeGuard
from penstock.gateway.streaming.continuity import Continuity
from penstock.gateway.streaming.dialects import DIALECTS
from penstock.gateway.streaming.frame import Frame
from penstock.gateway.streaming.stream_relay import StreamRelay
from penstock.gateway.streaming.unary_relay import UnaryRelay
from tests.support.engines.token_stream import FIRST_ID, PROMPT, WordEngine
from tests.support.gateways.dispatch import UNASKED, FakeReply, render, stream_request
from tests.support.samples.calls import DUE, VERSION, principal

COMPILED = Compiled(strictest([shipped.pack("secrets")]), Where.OUTPUT)


def judgement(call: Admitted) -> Judgement:
    return Judgement(call, COMPILED, lambda _, match: None, UNASKED)


class Engine:
    """A worker's answer that remembers why it was closed."""

    def __init__(self) -> None:
        self.error: PenstockError | None = None

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self, error: PenstockError) -> None:
        self.error = error


def admitted(*, stream: bool) -> Admitted:
    """Return an admitted chat."""
    request = replace(stream_request(api=Api.CHAT), stream=stream)
    came = Call(request=request, principal=principal(), timings=Timings(time.monotonic, 0.0))
    lease = Lease(opened_at=0.0, deadline_at=time.monotonic() + 30.0)
    return came.chosen(VERSION, Prepared(prompt_tokens=7)).admitted(request, DUE, lease)


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


@pytest.mark.parametrize("last", [event("EXAMPLE "), event("EXAMPLE", "stop") + b"data: [DONE]\n\n"])
async def test_a_blocked_stream_frees_its_seat(last: bytes) -> None:
    """In the middle and at the very end: one proper end, nothing of the match, and tokens until then are billed."""
    call, reply, engine = admitted(stream=True), FakeReply(), Engine()
    guard = StreamGuard(reply, call, judgement(call))
    frame = Frame(call=call, reply=guard, clock=time.monotonic, stall_s=5.0)
    relay = StreamRelay(frame, Continuity(call, None, lambda end, reason: None), render, 5.0, lambda: None)
    relay.attach(engine)
    for one in (event("It is "), event("AKIAIOSF"), event("ODNN7"), last, event("more")):
        relay.on_body(one)
    answer = await asyncio.wait_for(relay.answer(), 5.0)
    assert (answer.outcome, answer.usage.output_tokens) == (Outcome.FILTERED, 4)
    assert reply.body.count(b"[DONE]") == reply.finished == 1
    assert b'"finish_reason":"content_filter"' in reply.body
    assert b"AKIA" not in reply.body
    assert b"answer_filtered" not in reply.body
    if b"DONE" not in last:
        assert type(engine.error).__name__ == "AnswerFiltered"
        assert answer.finish is FinishReason.CONTENT_FILTER


SAID = "It is AKIAIOSFODNN7EXAMPLE and more."


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
@pytest.mark.parametrize("again", [1, 4])
async def test_a_worker_that_dies_inside_a_match_leaks_none_of_it(api: Api, again: int) -> None:
    """Wherever the first worker dies, and the second one a little later, the match is found over the seams."""
    for cut in range(1, len(SAID)):
        reply = await continued(api, cut, again)
        said = [json.loads(line[6:]) for line in reply.body.split(b"\n\n") if line.startswith(b"data: {")]
        choices = [one["choices"][0] for one in said if one["choices"]]
        assert "".join(one.get("delta", one).get("content", one.get("text")) or "" for one in choices) == "It is "
        assert choices[-1]["finish_reason"] == "content_filter"


async def continued(api: Api, *cuts: int) -> FakeReply:
    """Return what a caller reads of a stream whose workers die after so many events each."""
    call, reply = admitted(stream=True), FakeReply()
    prompt_of: dict[str, object] = {"messages": []} if api is Api.CHAT else {"prompt": "hi"}
    body: dict[str, object] = {"model": "toy", "temperature": 0, **prompt_of}
    call = replace(call, request=replace(call.request, api=api, body=body, cost=Cost(output_tokens=99)))
    engine = WordEngine(tokens=tuple(one.encode() for one in SAID))
    guard, kept = StreamGuard(reply, call, judgement(call)), Continuity(call, engine, lambda *_: None)
    guard.start(200, [])
    speaks, prompt, most = api, PROMPT, 99
    for events in cuts:
        take = kept.take_or(DIALECTS[api].counted)
        for event in list(engine.stream(speaks, prompt, most))[:events]:
            guard.write(take(event)[1])
        if reply.finished:
            return reply
        rest = await kept.rest(StreamBroken())
        assert rest is not None
        speaks, prompt, most = rest.api, [*PROMPT, *range(FIRST_ID, FIRST_ID + kept.kept)], rest.output_tokens
    take = kept.take_or(DIALECTS[api].counted)
    for event in engine.stream(speaks, prompt, most):
        guard.write(take(event)[1])
    return reply


async def test_a_blocked_whole_answer_is_filtered() -> None:
    """A whole answer that was cut has the outcome, and the engine's own usage."""
    call, reply = admitted(stream=False), FakeReply()
    guard = WholeGuard(reply, call, judgement(call))
    relay = UnaryRelay(Frame(call=call, reply=guard, clock=time.monotonic, stall_s=5.0), 1 << 20)
    relay.attach(Engine())
    relay.on_head(200, [(b"content-type", b"application/json")])
    choice = {"index": 0, "message": {"content": "so AKIAIOSFODNN7EXAMPLE"}, "finish_reason": "stop"}
    relay.on_body(json.dumps({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 9}}).encode())
    relay.on_end(None)
    answer = await asyncio.wait_for(relay.answer(), 5.0)
    assert answer.outcome is Outcome.FILTERED
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "so "
