"""Filters on a real engine, whose grammar makes it say a key: every API ends properly, and SDKs read the end."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.support.patience import patient, until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet

pytestmark = pytest.mark.integration

TENANT = "filtered"
MODEL = "smollm2"
SECRET = "AKIAIOSFODNN7EXAMPLE"
PATTERN = "It is AKIA[I]OSFODNN7EXAMPLE[.]( and so on){150}"
"""The prompt is judged too, so it has the key as a pattern alone; what follows keeps the engine busy."""
MAIL = "Write to jane[@]example[.]com now[.]"
TOKENS = 120
FREE_WITHIN_S = 1.0
ASKED: dict[str, Any] = {"model": MODEL, "temperature": 0}
CHAT = {**ASKED, "messages": [{"role": "user", "content": "Go."}], "max_tokens": TOKENS}
COMPLETION = {**ASKED, "prompt": "Go.", "max_tokens": TOKENS}
KEY_SCHEMA = {"type": "object", "properties": {"key": {"type": "string", "pattern": "^AKIA[I]OSFODNN7EXAMPLE$"}}}
SCHEMA = {**KEY_SCHEMA, "required": ["key"], "additionalProperties": False}
FORMAT = {"format": {"type": "json_schema", "name": "k", "schema": SCHEMA, "strict": True}}


@pytest.fixture(scope="module")
def key(platform: Platform) -> str:
    """Return a key of a tenant with the packs ``secrets`` and ``pii``."""
    platform.run("tenants", "create", TENANT)
    platform.run("safety", "assign", "secrets,pii", "--tenant", TENANT)
    found = re.search(r"psk_\w+", platform.run("keys", "create", TENANT).stdout)
    assert found is not None
    with platform.http(found[0]) as http:
        refused = {**CHAT, "messages": [{"role": "user", "content": SECRET}]}
        until("the packs hold", lambda: http.post("/v1/chat/completions", json=refused).status_code == 400)
    return found[0]


@pytest.fixture
def openai(platform: Platform, key: str) -> Iterator[OpenAI]:
    """Yield OpenAI's SDK as that tenant."""
    with OpenAI(base_url=f"{platform.url}/v1", api_key=key, max_retries=0, timeout=patient(60)) as sdk:
        yield sdk


def rows(platform: Platform) -> dict[str, dict[str, str]]:
    return {row["request"]: row for row in platform.usage(TENANT)}


def row_of(platform: Platform, request: str) -> dict[str, str]:
    until("the row is delivered", lambda: request in rows(platform))
    return rows(platform)[request]


def test_a_blocked_prompt_costs_nothing(platform: Platform, key: str) -> None:
    """Its answer is a 400 before any worker, in the ledger at zero."""
    with platform.http(key) as http:
        answer = http.post("/v1/completions", json={**COMPLETION, "prompt": f"What is {SECRET}?"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "content_filter")
    row = row_of(platform, answer.headers["x-request-id"])
    assert (row["outcome"], row["output_tokens"], row["cost"]) == ("filtered", "0", "0")


def said(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@pytest.mark.parametrize("n", [1, 2])
def test_a_blocked_stream_frees_its_seat(platform: Platform, key: str, n: int) -> None:
    """It ends before the key, with its usage, is billed until there, and the engine goes on for nobody."""
    body = {**CHAT, "max_tokens": 400, "n": n, "stream": True, "structured_outputs": {"regex": PATTERN}}
    lines = list[str]()
    with platform.http(key) as http:
        asked = {**body, "stream_options": {"include_usage": True}}
        with http.stream("POST", "/v1/chat/completions", json=asked) as answer:
            assert answer.status_code == httpx.codes.OK, answer.read()
            lines += answer.iter_lines()
        ended = time.monotonic()
        until("the seat is free", lambda: not Fleet(platform=platform).running(), every_s=0.05)
        assert time.monotonic() - ended < patient(FREE_WITHIN_S)
    *events, last = said(lines)
    assert [line for line in lines if line][-1] == "data: [DONE]"
    assert "AKIA" not in "".join(lines)
    ends = {one["index"]: one["finish_reason"] for event in events for one in event["choices"] if one["finish_reason"]}
    assert ends == dict.fromkeys(range(n), "content_filter")
    assert 0 < last["usage"]["completion_tokens"] < 100 * n
    row = row_of(platform, answer.headers["x-request-id"])
    assert row["outcome"] == "filtered"
    assert 0 < int(row["output_tokens"]) < 200 * n


def test_a_whole_answer_ends_before_the_key(openai: OpenAI, platform: Platform) -> None:
    """Chats and completions say why, in each choice."""
    forced = {"structured_outputs": {"regex": "It is AKIA[I]OSFODNN7EXAMPLE[.]"}}
    chat = openai.chat.completions.create(**CHAT, n=2, extra_body=forced)
    assert [(one.message.content, one.finish_reason) for one in chat.choices] == [("It is ", "content_filter")] * 2
    text = openai.completions.create(**COMPLETION, extra_body=forced)
    assert (text.choices[0].text, text.choices[0].finish_reason) == ("It is ", "content_filter")
    for answer in (chat, text):
        request = (answer.model_extra or {})["penstock"]["request_id"]
        assert row_of(platform, request)["outcome"] == "filtered"


@pytest.mark.parametrize("stream", [True, False])
def test_an_address_is_masked(openai: OpenAI, stream: bool) -> None:
    """The rest of the text stays, and the answer ends as its engine ended it."""
    forced = {"structured_outputs": {"regex": MAIL}}
    if stream:
        chunks = openai.completions.create(**COMPLETION, extra_body=forced, stream=True)
        choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
        text, finish = "".join(one.text for one in choices), choices[-1].finish_reason
    else:
        (choice,) = openai.completions.create(**COMPLETION, extra_body=forced).choices
        text, finish = choice.text, choice.finish_reason
    assert (text, finish) == (f"Write to {'*' * 16} now.", "stop")


@pytest.mark.parametrize("stream", [True, False])
def test_responses_are_incomplete(openai: OpenAI, stream: bool) -> None:
    """The SDK reads the reason, and the output until there."""
    asked = {**ASKED, "input": "Go.", "text": FORMAT, "max_output_tokens": TOKENS, "store": False}
    if stream:
        *_, last = openai.responses.create(**asked, stream=True)
        assert last.type == "response.incomplete"
        made = last.response
    else:
        made = openai.responses.create(**asked)
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "content_filter")
    assert "key" in made.output_text
    assert "AKIA" not in made.output_text


@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_call_is_refused_in_messages(platform: Platform, key: str, stream: bool) -> None:
    """Arguments are never masked or cut: the call is dropped, and Anthropic's SDK reads the refusal."""
    tool: Any = {"name": "send", "description": "Sends.", "input_schema": SCHEMA}
    turns = [{"role": "user", "content": "Go."}]
    asked: Any = {"model": MODEL, "messages": turns, "max_tokens": TOKENS, "tools": [tool]}
    asked["tool_choice"] = {"type": "any"}
    with Anthropic(base_url=platform.url, api_key=key, max_retries=0, timeout=patient(60)) as sdk:
        if stream:
            with sdk.messages.stream(**asked) as events:
                message = events.get_final_message()
        else:
            message = sdk.messages.create(**asked)
    assert message.stop_reason == "refusal"
    assert "AKIA" not in message.to_json()


def test_a_tool_call_ends_a_chat(openai: OpenAI) -> None:
    """A whole chat has no half of a call."""
    tool: Any = {"type": "function", "function": {"name": "send", "description": "Sends.", "parameters": SCHEMA}}
    chat = openai.chat.completions.create(**CHAT, tools=[tool], tool_choice="required")
    assert (chat.choices[0].finish_reason, chat.choices[0].message.tool_calls or []) == ("content_filter", [])
