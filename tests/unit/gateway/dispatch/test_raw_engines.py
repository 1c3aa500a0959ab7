"""Engines that break answers off, or write no HTTP and no JSON, over real sockets: a 5xx that costs nothing."""

import msgspec
import pytest

from penstock.domain.errors import AnswerUnformed, PenstockError
from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Report, Used
from penstock.domain.tokens import Usage
from penstock.formats.report import HEADER, encode
from penstock.gateway.billing import bill
from penstock.gateway.calls.call import Answer
from penstock.gateway.listener.errors import row_of
from tests.support.engines.raw_server import CLOSE, raw_server
from tests.support.gateways.dispatch import Corridor, FakeReply, corridor, stream_request, unary_request

MADE = Used(prompt_tokens=34, output_tokens=49, cached_tokens=0, sequences=1, prompts=1, is_final=True)
RUN = HEADER + b": " + encode(Report(used=MADE)) + b"\r\n"
JSON = b"content-type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REFUSAL = b'{"error":{"message":"no call of the tool","type":"BadRequestError","param":null,"code":400}}'


def whole(status: bytes, body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    size = b"content-length: %d\r\n\r\n" % (len(body) if length is None else length)
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(headers) + JSON + size + body


def event(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data) + 2, data + b"\n\n") if data else b"0\r\n\r\n"


BROKEN = {
    "no HTTP": [b"\x16\x03\x01 this is no HTTP\r\n\r\n", CLOSE],
    "nothing": [CLOSE],
    "half a head": [b"HTTP/1.1 200 OK\r\ncontent-le", CLOSE],
    "half a body": [whole(b"200 OK", b'{"choices":[{"index":0', length=500), CLOSE],
    "a chunk that is none": [EVENTS.replace(b"text/event-stream", b"application/json"), b"zz\r\n{}\r\n", CLOSE],
    "a 500 that is no JSON": [whole(b"500 Internal Server Error", b"\xff\xfe<html>")],
    "a refusal after tokens": [whole(b"400 Bad Request", REFUSAL, RUN)],
    "a refusal after tokens that is no JSON": [whole(b"422 Unprocessable Entity", b"\xff{", RUN)],
}


async def outcome(way: Corridor, *, is_stream: bool) -> tuple[Answer, FakeReply]:
    """Return how a request ended, and what its caller had until then."""
    reply = FakeReply()
    try:
        return await way.ask(stream_request() if is_stream else unary_request(), reply), reply
    except PenstockError as error:
        return Answer.refused(error, Usage()), reply


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", BROKEN)
async def test_an_answer_that_cannot_be_formed_costs_nothing(name: str, is_stream: bool) -> None:
    """Before the first byte: one status from 500 on, never the engine's own words as the caller's fault."""
    async with corridor() as way, raw_server(*[BROKEN[name]] * 8) as engine:
        way.stubs[0].url = engine.url
        answer, reply = await outcome(way, is_stream=is_stream)
    assert answer.refusal is not None
    assert answer.outcome is Outcome.ENGINE_ERROR
    assert not reply.started
    assert bill.due(answer, Usage(prompt_tokens=34, output_tokens=49)).total_tokens == 0


@pytest.mark.parametrize(
    "said",
    [
        [event(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'), CLOSE],
        [event(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'), b"zz\r\n", CLOSE],
        [event(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}'), event(b"data: " + REFUSAL)],
    ],
    ids=["cut", "no chunk", "a refusal of its own answer"],
)
async def test_a_stream_that_breaks_off_ends_with_an_error_and_no_false_end(said: list[bytes]) -> None:
    """What came is the caller's, an error follows, and ``[DONE]`` does not."""
    async with corridor() as way, raw_server([EVENTS, *said]) as engine:
        way.stubs[0].url = engine.url
        answer, reply = await outcome(way, is_stream=True)
    assert answer.outcome in (Outcome.ENGINE_ERROR, Outcome.BROKEN_STREAM)
    assert b'"content":"a"' in reply.body
    assert b"[DONE]" not in reply.body
    assert b"no call of the tool" not in reply.body
    last = [line for line in reply.body.split(b"\n") if line.startswith(b"data: ")][-1]
    assert "error" in msgspec.json.decode(last.removeprefix(b"data: "))


def test_an_unformed_answer_is_a_502() -> None:
    """It is the engine's failure in each API's table."""
    assert row_of(AnswerUnformed()).status == 502
