import json

import pytest

from loadtests.drive.sse import Stream, Usage, code_of


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def said(text: str) -> bytes:
    return event(choices=[{"delta": {"content": text}}])


def test_text_is_stamped_when_it_comes() -> None:
    """Each event with text has the time of the bytes that completed it; roles, comments and usage have none."""
    stream = Stream()
    stream.feed(event(choices=[{"delta": {"role": "assistant", "content": ""}}]) + b": waiting\n\n", 1.0)
    half = said("Once")
    stream.feed(half[:9], 2.0)
    stream.feed(half[9:] + said(" upon"), 3.0)
    stream.feed(event(choices=[], usage={"completion_tokens": 2}) + b"data: [DONE]\n\n", 4.0)
    assert stream.texts_at == [3.0, 3.0]
    assert stream.usage == Usage(completion_tokens=2)
    assert stream.is_whole


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "tool_calls"])
def test_what_a_reader_sees_besides_text_counts_as_text(field: str) -> None:
    """A stream that reasons or calls a tool has begun."""
    stream = Stream()
    stream.feed(event(choices=[{"delta": {field: "x"}}]), 1.0)
    assert stream.texts_at == [1.0]


def test_a_stream_without_its_end_is_not_whole() -> None:
    """Text alone is no whole answer."""
    stream = Stream()
    stream.feed(said("Once"), 1.0)
    assert not stream.is_whole


def test_a_stream_with_an_error_is_not_whole_whatever_follows() -> None:
    """An error inside a stream is kept by its code, and no proper end mends it."""
    stream = Stream()
    stream.feed(event(error={"code": "worker_lost", "message": "secret prompt"}) + b"data: [DONE]\n\n", 1.0)
    assert stream.error == "worker_lost"
    assert not stream.is_whole


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"code": "overloaded", "message": "…"}}, "overloaded"),
        ({"error": {"type": "rate_limit_error", "code": None}}, "rate_limit_error"),
        ({"object": "error", "type": "BadRequestError", "code": 400}, "400"),
        ({"error": "no"}, "error"),
        ([], "error"),
    ],
)
def test_an_error_is_known_by_its_short_word(body: object, code: str) -> None:
    """Every dialect's code or type is found, and a message, which may quote a prompt, is never taken."""
    assert code_of(body) == code


@pytest.mark.parametrize("data", [b"[]", b"{", b'{"choices": 3}', b'{"choices": [{"delta": 1}]}', b'{"usage": []}'])
def test_what_is_no_such_stream_is_told(data: bytes) -> None:
    """An event of another shape is a value error, which the caller records as a broken answer."""
    with pytest.raises(ValueError, match=r"."):
        Stream().feed(b"data: " + data + b"\n\n", 1.0)
