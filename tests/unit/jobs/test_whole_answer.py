"""A stream's events become the body that the API gives without a stream."""

import json

import pytest

from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer
from penstock.gateway.calls.inside import Asked
from penstock.jobs import asking
from penstock.jobs.whole_answer import of_events
from tests.support.samples import calls
from tests.support.samples.jobs import JOB

HEAD = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m@1"'
USAGE = '"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}'


def events(*parts: str) -> bytes:
    """Return these parts of events as a stream with its usage, the platform's comment and the last event."""
    whole = [f"data: {HEAD},{part}}}\n\n" for part in parts]
    last = f'data: {HEAD},"choices":[],{USAGE},"system_fingerprint":"f"}}\n\n'
    return "".join([*whole, last, ': penstock {"request_id":"r"}\n\n', "data: [DONE]\n\n"]).encode()


def chat(content: str, finish: str = "null") -> str:
    return f'"choices":[{{"index":0,"delta":{{"content":{json.dumps(content)}}},"finish_reason":{finish}}}]'


def test_an_answer_that_a_filter_ended_is_an_answer() -> None:
    """Its events become the body with its reason, and the attempt has no error: nothing is tried again."""
    asked = Asked(call=calls.call(stream=True), answer=Answer(outcome=Outcome.FILTERED, usage=Usage(output_tokens=4)))
    body = asking._whole(JOB, calls.request(stream=True), asked, events(chat("so", '"content_filter"')), 0.0)
    assert json.loads(body)["choices"][0]["finish_reason"] == "content_filter"
    found = asking._answered(asked, body)
    assert (found.error, found.body, found.output_tokens) == (None, body, 4)


def test_a_chats_pieces_are_one_message() -> None:
    """Text, finish reason, usage and names are those of the events, and the platform's field is the last one."""
    role = '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]'
    body = json.loads(of_events(Api.CHAT, events(role, chat("Once"), chat(' "upon"', '"stop"')), b'{"version":"m@1"}'))
    (choice,) = body["choices"]
    assert (choice["message"]["role"], choice["message"]["content"]) == ("assistant", 'Once "upon"')
    assert (body["object"], choice["finish_reason"], body["usage"]["total_tokens"]) == ("chat.completion", "stop", 5)
    assert (body["id"], body["system_fingerprint"], body["penstock"]) == ("chatcmpl-1", "f", {"version": "m@1"})


def test_reasoning_stays_apart() -> None:
    """What a model thinks is in its own field, and a message without text has none."""
    thought = '"choices":[{"index":0,"delta":{"reasoning":"hm"},"finish_reason":"length"}]'
    message = json.loads(of_events(Api.CHAT, events(thought), b"{}"))["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("hm", None)


def test_a_completion_is_its_text() -> None:
    """Completions have no message."""
    parts = [
        f'"choices":[{{"index":0,"text":"{text}","finish_reason":{end}}}]'
        for text, end in (("a", "null"), ("b", '"length"'))
    ]
    body = json.loads(of_events(Api.COMPLETIONS, events(*parts), b"{}"))
    assert (body["object"], body["choices"][0]["text"]) == ("text_completion", "ab")


@pytest.mark.parametrize("broken", [events(chat("Once")), events(), b""], ids=["no reason", "no choice", "nothing"])
def test_a_stream_without_its_end_is_no_answer(broken: bytes) -> None:
    """Half an answer is never delivered as a whole one."""
    with pytest.raises(ValueError, match="without an end"):
        of_events(Api.CHAT, broken, b"{}")
