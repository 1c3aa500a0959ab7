"""The command line's own client of the streaming API."""

import httpx
import pytest

from penstock.clients.chat import Question, Stats, ask_model, breakdown, refused
from penstock.domain.command_error import CommandError

QUESTION = Question(model="smollm2", text="Hi")
STREAM = (
    b": heartbeat\n\n"
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\n'
    b': penstock {"request_id":"req-1","stages_ms":{"edge":0.5}}\n\n'
    b"data: [DONE]\n\n"
)


def client(status: int, body: bytes) -> httpx.Client:
    headers = {"x-request-id": "req-1", "x-penstock-version": "smollm2@0123456789ab"}
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body, headers=headers))
    return httpx.Client(base_url="http://gateway", transport=transport)


def ask(status: int, body: bytes) -> tuple[Stats, list[str]]:
    pieces: list[str] = []
    ticks = iter(range(100))
    with client(status, body) as http:
        stats = ask_model(http, QUESTION, pieces.append, lambda: float(next(ticks)))
    return stats, pieces


def test_a_stream_is_written_as_it_comes_and_tells_the_rest() -> None:
    """Text comes in pieces; version, usage and stages are kept."""
    stats, pieces = ask(200, STREAM)
    assert pieces == ["Hel", "lo"]
    assert (stats.version, stats.request_id) == ("smollm2@0123456789ab", "req-1")
    assert (stats.prompt_tokens, stats.output_tokens) == (9, 2)
    assert stats.stages_ms == {"edge": 0.5}
    assert stats.ttft_s == 1.0


def test_an_error_in_the_stream_is_trouble() -> None:
    """A stream that breaks off says why, and is not taken for an answer; where nothing had come, nothing broke off."""
    error = b'data: {"error":{"message":"the worker was lost","code":"stream_broken"}}\n\n'
    with pytest.raises(CommandError, match=r"There was no answer: the worker was lost .*stream_broken"):
        ask(200, error)
    begun = STREAM.split(b'data: {"choices":[],"usage"')[0]
    with pytest.raises(CommandError, match=r"The answer broke off: the worker was lost"):
        ask(200, begun + error)


def test_a_refusal_is_said_in_words_with_a_hint() -> None:
    """The API's message, code and request id reach the terminal, with what to do."""
    body = b'{"error":{"message":"no such model","code":"model_not_found","request_id":"req-7"}}'
    with pytest.raises(
        CommandError, match=r"no such model \[model_not_found, status 404\] \(request req-7\)"
    ) as caught:
        ask(404, body)
    assert "penstock models list" in caught.value.do


def test_an_answer_that_is_no_penstock_is_shown_as_it_is() -> None:
    """Something else on the port is told by its status and its first words."""
    answer = httpx.Response(502, content=b"<html>proxy</html>", request=httpx.Request("GET", "http://x/y"))
    assert "502" in refused(answer).what
    assert "proxy" in refused(answer).what


def test_the_breakdown_says_who_how_much_and_where() -> None:
    """Version, tokens, rate and stages stand in three lines."""
    stats = Stats(version="v@1", request_id="r", stages_ms={"prefill": 12.34}, prompt_tokens=9, output_tokens=20)
    stats.ttft_s, stats.total_s = 0.5, 2.5
    lines = breakdown(stats).splitlines()
    assert "v@1" in lines[0]
    assert "10 tokens/s" in lines[1]
    assert lines[2] == "prefill 12.3 ms"
