"""Answers that were to be JSON: who asked for it in a way that nothing can bend, and whether it came."""

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.gateway.streaming import comparable
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
    assert comparable.is_asked(call(body={"model": "toy", "messages": [], **body}).request) is is_asked


def test_other_dialects_are_not_read() -> None:
    """Their answers have other shapes."""
    asked = call(body={"model": "toy", "structured_outputs": {"json": {}}}, api=Api.MESSAGES).request
    assert not comparable.is_asked(asked)


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
        (chat("[" * comparable.MOST_BYTES), None),
        (b"{", None),
        (b'{"choices":[]}', None),
    ],
)
def test_a_whole_answer_is_json_or_not_or_nobody_knows(body: bytes, *, expected: bool | None) -> None:
    """A call of a tool, an odd shape and what is too long or too deep to read say nothing."""
    assert comparable.whole(body) is expected


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
        (events("x" * comparable.MOST_BYTES), None),
        ([], None),
        ([b'data: {"choices":[{"delta":3}]}\n\n'], None),
    ],
)
def test_a_stream_is_json_or_not_or_nobody_knows(pieces: list[bytes], *, expected: bool | None) -> None:
    """Its events go by as they are."""
    kept = comparable.KeptEvents()
    take = kept.over(plain)
    assert [take(piece) for piece in pieces] == [(1, piece) for piece in pieces]
    assert kept.is_json() is expected


def test_another_attempt_forgets_what_the_one_before_it_said() -> None:
    """Half an answer of a lost worker is nobody's."""
    kept = comparable.KeptEvents()
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
        assert answer.is_json() is expected


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ('{"a": 1, "b": [true, null]}', ' {"b":[true,null],"a":1}\n', True),
        ('{"a": {"c": "x", "b": 1}}', '{"a": {"b": 1, "c": "x"}}', True),
        ('{"a": "\\u00e9"}', '{"a": "é"}', True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ('{"a": 1e2}', '{"a": 100}', True),
        ('{"a": 1e999}', '{"a": 1e999}', True),
        ('{"a": 0.1}', '{"a": 0.10000000000000001}', False),
        ('{"a": 1.5}', '{"a": 1}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": 1}', '{"a": 1, "b": null}', False),
        ('{"a": 1}', "a: 1", False),
    ],
)
def test_json_is_compared_by_value(one: str, other: str, *, is_same: bool) -> None:
    """The order of names and the spacing are no difference; kinds and the order of a list are."""
    assert (comparable.of_json(one) == comparable.of_json(other)) is is_same


@pytest.mark.parametrize("said", ["", "{", '{"a": 1', "yes", "NaN"])
def test_what_is_no_json_has_the_form_of_none(said: str) -> None:
    """Told apart from what nobody reads, which is deeper than a person would write."""
    assert comparable.of_json(said) == comparable.NO_JSON
    assert comparable.of_json("[" * 100_000) in (None, comparable.NO_JSON)


def test_labels_are_read_in_order() -> None:
    """A list of texts has a list of labels; the scores play no part."""
    one, other = (
        json.dumps({"data": [{"index": 0, "label": "sport", "probs": [score]}, {"index": 1, "label": "world"}]})
        for score in (0.9, 0.6)
    )
    assert comparable.of_labels(one.encode()) == comparable.of_labels(other.encode()) == b'["sport","world"]'


@pytest.mark.parametrize("body", [b"", b"{}", b'{"data": [{"label": null}]}', b'{"data": 5}', b"x" * 300_000])
def test_an_answer_that_names_no_labels_has_no_form(body: bytes) -> None:
    """Vectors, errors, what was cut, what is too long to be read."""
    assert comparable.of_labels(body) is None


def test_numbers_that_are_slow_to_read_hold_nobody_up() -> None:
    """An answer of extreme numbers takes less than ten times what one of plain numbers takes."""

    def seconds(number: str) -> float:
        said = json.dumps([0])[:-1] + f",{number}" * ((comparable.MOST_BYTES - 10) // (len(number) + 1)) + "]"
        began = time.process_time()
        assert comparable.of_json(said)
        return time.process_time() - began

    assert min(seconds("9e307") for _ in range(3)) < 10 * min(seconds("1.5e1") for _ in range(3))
