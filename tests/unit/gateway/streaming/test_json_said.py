"""Answers that were to be JSON: who asked for it in a way that nothing can bend, and whether it came."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.gateway.streaming import forms, json_said
from tests.support.gateways.dispatch import FakeReply, corridor, stream_request, unary_request
from tests.support.samples.calls import call

SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("body", "is_asked"),
    [
        ({}, False),
        ({"response_format": {"type": "text"}}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": SCHEMA, "max_tokens": 9, "temperature": 0.7}, True),
        ({"structured_outputs": {"json": {"type": "object"}}}, True),
        ({"structured_outputs": {"json_object": True}}, True),
        ({"structured_outputs": {"regex": "a+"}}, False),
        ({"response_format": SCHEMA, "stop": ["}"]}, False),
        ({"response_format": SCHEMA, "logit_bias": {"5": -100}}, False),
        ({"response_format": SCHEMA, "tools": [{}]}, False),
        ({"response_format": SCHEMA, "n": 2}, False),
        ({"response_format": "json"}, False),
    ],
)
def test_only_what_its_caller_can_t_bend_counts_as_asked(body: dict[str, object], *, is_asked: bool) -> None:
    """A stop word or a forbidden token breaks JSON at any version."""
    assert json_said.is_asked(call(body={"model": "toy", "messages": [], **body}).request) is is_asked


def test_other_dialects_are_not_read() -> None:
    """Their answers have other shapes."""
    asked = call(body={"model": "toy", "structured_outputs": {"json": {}}}, api=Api.MESSAGES).request
    assert not json_said.is_asked(asked)


def chat(said: str | None) -> bytes:
    return json.dumps({"choices": [{"message": {"content": said}}], "usage": {}}).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (chat('{"a": [1, "x"]}'), True),
        (chat(' {"a": 1}\n'), True),
        (json.dumps({"choices": [{"text": "{}"}]}).encode(), True),
        (chat('{"a": '), False),
        (chat("<think>hm</think>{}"), False),
        (chat(""), False),
        (chat(None), None),
        (chat("[" * 100_000), None),
        (chat("[" * forms.MOST_BYTES), None),
        (b"{", None),
        (b'{"choices":[]}', None),
    ],
)
def test_a_whole_answer_is_json_or_not_or_nobody_knows(body: bytes, *, expected: bool | None) -> None:
    """A call of a tool, an odd shape and what is too long or too deep to read say nothing."""
    assert json_said.whole(body) is expected


def events(*said: str, dialect: Callable[[str], object] = lambda one: {"delta": {"content": one}}) -> list[bytes]:
    return [
        b"data: " + json.dumps({"choices": [dialect(one)]}, separators=(",", ":")).encode() + b"\n\n" for one in said
    ]


def plain(events: bytes) -> tuple[int, bytes]:
    return 1, events


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (events('{"a"', ": 1", "}"), True),
        (events('{"a"', ": 1"), False),
        (events("{", "}", dialect=lambda one: {"text": one}), True),
        ([b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n', *events("{}")], True),
        (events("x" * forms.MOST_BYTES), None),
        ([], None),
        ([b'data: {"choices":[{"delta":3}]}\n\n'], None),
    ],
)
def test_a_stream_is_json_or_not_or_nobody_knows(pieces: list[bytes], *, expected: bool | None) -> None:
    """Its events go by as they are."""
    kept = json_said.Kept()
    take = kept.over(plain)
    assert [take(piece) for piece in pieces] == [(1, piece) for piece in pieces]
    assert kept.is_json() is expected


def test_another_attempt_forgets_what_the_one_before_it_said() -> None:
    """Half an answer of a lost worker is nobody's."""
    kept = json_said.Kept()
    for said in ('{"a":', "{}"):
        kept.over(plain)(events(said)[0])
    assert kept.is_json() is True


@pytest.mark.parametrize("request_of", [stream_request, unary_request])
@pytest.mark.parametrize(("asked", "expected"), [(SCHEMA, False), (None, None)])
async def test_an_engine_that_says_words_where_json_was_asked_is_seen(
    request_of: Callable[[], InferenceRequest], asked: object, *, expected: bool | None
) -> None:
    """Streamed or whole; the answer goes to its caller all the same."""
    async with corridor() as way:
        request = request_of()
        answer = await way.ask(replace(request, body={**request.body, "response_format": asked}), FakeReply())
        assert answer.outcome is Outcome.OK
        assert way.call is not None
        assert way.call.is_json() is expected
