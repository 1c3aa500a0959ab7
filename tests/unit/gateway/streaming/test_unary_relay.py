import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import EngineError
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.serving.report import Used
from penstock.domain.serving.request import Api, Prepared
from penstock.domain.tokens import Usage
from penstock.gateway.answers import account
from penstock.gateway.calls.call import Call, Timings
from penstock.gateway.calls.lease import Lease
from penstock.gateway.streaming import stages
from penstock.gateway.streaming.frame import Frame
from penstock.gateway.streaming.relays import RelaySettings
from penstock.gateway.streaming.stages import spliced
from penstock.gateway.streaming.unary_relay import UnaryRelay
from tests.support.engines.stub import Behaviour
from tests.support.gateways.dispatch import FakeReply, corridor, unary_request
from tests.support.samples.calls import DUE, VERSION, principal


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS, Api.EMBEDDINGS])
async def test_answer_passes_with_our_field(api: Api) -> None:
    """The engine's JSON passes as it is, with id, version and stage times spliced in."""
    async with corridor() as way:
        reply = FakeReply()
        answer = await way.ask(unary_request(5, api), reply)
    told = json.loads(reply.body)
    ours = told.pop("penstock")
    assert (ours["request_id"], ours["version"]) == ("req-1", "toy@0123456789ab")
    assert {"route", "decode"} <= ours["stages_ms"].keys()
    assert reply.headers[b"content-length"] == b"%d" % len(reply.body)
    assert told["usage"]["prompt_tokens"] == 11
    output = 0 if api is Api.EMBEDDINGS else 5
    assert (answer.outcome, answer.usage) == (Outcome.OK, Usage(prompt_tokens=11, output_tokens=output))
    assert answer.finish is (None if api is Api.EMBEDDINGS else FinishReason.LENGTH)
    assert reply.finished == 1


async def test_answer_too_large_is_given_up() -> None:
    """An answer beyond the bound is not held in memory."""
    async with corridor() as way:
        way.settings = RelaySettings(max_answer_bytes=1_000)
        with pytest.raises(EngineError, match="larger"):
            await way.ask(unary_request(5_000), FakeReply())


async def test_nothing_is_written_before_the_answer_is_whole() -> None:
    """A worker that dies in the middle of an answer leaves no trace at the client."""
    async with corridor(2) as way:
        way.stubs[0].behaviour = Behaviour(mode="die_before_token")
        reply = FakeReply()
        await way.ask(unary_request(), reply)
    assert json.loads(reply.body)["usage"]["completion_tokens"] == 5


@given(st.dictionaries(st.text(), st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()))))
def test_splicing_keeps_the_object(told: dict[str, object]) -> None:
    """Whatever the object, one field is added and nothing else changes."""
    told.pop("penstock", None)
    for body in (json.dumps(told), json.dumps(told, indent=1) + "\n", json.dumps(told)[:-1] + " }"):
        assert json.loads(b"".join(spliced([body.encode()], b'{"a":1}'))) == {**told, "penstock": {"a": 1}}


def test_a_large_object_may_come_in_pieces() -> None:
    """Only its end is written anew, wherever it was cut."""
    body = b'{"choices": [1, 2], "usage": {} }'
    for cut in range(2, len(body)):
        made = b"".join(spliced([body[:cut], body[cut:]], b'{"a":1}'))
        assert json.loads(made) == {"choices": [1, 2], "usage": {}, "penstock": {"a": 1}}


async def test_a_large_answer_holds_up_no_stream() -> None:
    """Whole answers: 20 MiB were joined, read and copied on the loop for 170 ms; its gate has counted them already."""
    request, reply = unary_request(5, Api.CHAT), FakeReply()
    came = Call(request=request, principal=principal(), timings=Timings(time.monotonic, 0.0))
    lease = Lease(opened_at=0.0, deadline_at=time.monotonic() + 5.0)
    call = came.chosen(VERSION, Prepared(prompt_tokens=7)).admitted(request, DUE, lease)
    frame = Frame(call=call, reply=reply, clock=time.monotonic, stall_s=5.0)
    relay = UnaryRelay(frame, 64 << 20)
    relay.on_head(200, [])
    call.attempts.used = Used(prompt_tokens=3, output_tokens=9)
    pieces = [b'{"choices":[', *[b"0," * (32 << 10)] * 40, b"0]", b',"usage":{"prompt_tokens":1}}']
    for piece in pieces:
        relay.on_body(piece)
    relay.on_end(None)
    answer = await relay.answer()
    assert (answer.outcome, answer.said) == (Outcome.OK, None)
    assert all(mine is theirs for mine, theirs in zip(reply.writes, pieces[:-1], strict=False)), "nothing was copied"
    assert json.loads(reply.body)["penstock"]["request_id"] == request.id
    assert reply.headers[b"content-length"] == b"%d" % len(reply.body)


@pytest.mark.parametrize("body", [b"", b"[1]", b'"text"', b"{broken", b"\x00\x01"])
def test_what_is_no_object_stays_as_it_is(body: bytes) -> None:
    """Nothing is spliced into what is no JSON object."""
    assert spliced([body], b"{}") == [body]


@given(st.binary(max_size=300))
def test_any_body_can_be_read(body: bytes) -> None:
    """A body that is not what we know says nothing, and breaks nothing."""
    account.read(body)


def test_engine_times_split_the_wait() -> None:
    """Queue, prefill and decode are the engine's; the way there and back is what is left."""
    metrics = account.EngineTimes(queue_time_ms=10.0, time_to_first_token_ms=20.0, generation_time_ms=30.0)
    assert stages.engine_stages(metrics, 0.1) == pytest.approx(
        {Stage.QUEUE: 0.01, Stage.PREFILL: 0.02, Stage.DECODE: 0.03, Stage.RELAY: 0.04}
    )
