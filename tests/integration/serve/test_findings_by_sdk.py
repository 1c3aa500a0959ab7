"""What developers found by the SDKs and their documentation alone, tried again through the SDKs on a running platform.

One case for each finding that has another answer since: served, told in ``x-penstock-ignored``, or a 400 whose
``param`` is the whole path.
"""

from collections.abc import Iterator
from typing import Any, cast

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.support.engines.likeness import COUNTING
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

MODEL = "smollm2"
SAY: dict[str, Any] = {"role": "user", "content": "Count to nine, in digits."}
WHATEVER: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
IGNORED = "x-penstock-ignored"


@pytest.fixture(scope="module")
def claude(platform: Platform) -> Iterator[Anthropic]:
    with Anthropic(base_url=platform.url, api_key=platform.demo_key, max_retries=0, timeout=120) as sdk:
        yield sdk


def image(kind: str) -> dict[str, Any]:
    data = "iVBORw0KGgo="
    if kind == "image":
        return {"type": kind, "source": {"type": "base64", "media_type": "image/png", "data": data}}
    url = f"data:image/png;base64,{data}"
    return {"type": kind, "image_url": url if kind == "input_image" else {"url": url}}


def schema(**given: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    whole = {"type": "object", "properties": {"a": given}}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": whole}}}


def turn(role: str, part: dict[str, Any], name: str = "messages") -> dict[str, Any]:
    return {name: [{"role": role, "content": [part]}, SAY]}


PART, INPUT_PART = "messages[0].content[0].type", "input[0].content[0].type"
_A = "response_format.json_schema.schema.properties.a"
CHAT: list[tuple[str, dict[str, Any], str]] = [
    ("1", schema(**{"not": {"type": "string"}}), f"{_A}.not"),
    ("2", schema(type="number", multipleOf=3), f"{_A}.multipleOf"),
    ("2", schema(anyOf=[]), f"{_A}.anyOf"),
    ("8", {"messages": [{"role": "sytem", "content": "x"}]}, "messages[0].role"),
    ("16", {"stop": ""}, "stop"),
    ("16", {"frequency_penalty": 3}, "frequency_penalty"),
    ("16", {"extra_body": {"min_p": 2}}, "min_p"),
    ("16", {"extra_body": {"min_tokens": 9}, "max_tokens": 4}, "min_tokens"),
    ("16", {"extra_body": {"structured_outputs": {}}}, "structured_outputs"),
    ("17", turn("system", image("image_url")), PART),
    ("17", turn("user", {"type": "refusal", "refusal": "no"}), PART),
    ("17", {"messages": [{**SAY, "tool_call_id": "c"}]}, "messages[0].tool_call_id"),
    ("18", {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("18", turn("user", {"type": "image_url", "image_url": {"url": "http://x/"}}), "messages[0].content[0].image_url"),
    ("21", {"logit_bias": {"7": 1000}}, "logit_bias.7"),
    ("walk", {"extra_body": {"structured_outputs": {"_backend": "x"}}}, "structured_outputs._backend"),
    ("walk", {"tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice.type"),
]
MESSAGES: list[tuple[str, dict[str, Any], str]] = [
    ("5", {"thinking": {"type": "enabled", "budget_tokens": 1}}, "thinking.budget_tokens"),
    ("7", {"tool_choice": {"type": "any"}}, "tool_choice"),
    ("17", turn("user", {"type": "tool_use", "id": "c", "name": "f", "input": {}}), PART),
    ("17", turn("assistant", image("image")), PART),
    ("20", {"extra_headers": {"anthropic-beta": "no list"}}, "anthropic-beta"),
    ("21", {"extra_body": {"temperature": 1.5}}, "temperature"),
    ("22", {"stop_sequences": ["x"] * 33}, "stop_sequences"),
    ("schema", {"tools": [{"name": "f", "input_schema": {"type": "string"}}]}, "tools[0].input_schema.type"),
    ("schema", {"tools": [{"name": "f", "input_schema": "x"}]}, "tools[0].input_schema"),
]
RESPONSES: list[tuple[str, dict[str, Any], str]] = [
    ("13", turn("assistant", {"type": "refusal", "refusal": "no"}, "input"), INPUT_PART),
    ("17", turn("user", {"type": "output_text", "text": "x", "annotations": []}, "input"), INPUT_PART),
    ("17", turn("assistant", image("input_image"), "input"), INPUT_PART),
    ("walk", {"extra_body": {"structured_outputs": {"_backend": "x"}}}, "structured_outputs._backend"),
]


@pytest.mark.parametrize(("finding", "changes", "param"), CHAT)
def test_chat_refuses_with_the_path(client: OpenAI, finding: str, changes: dict[str, Any], param: str) -> None:
    """Before any engine, in the SDK's own error."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**cast("Any", {"model": MODEL, "messages": [SAY], "max_tokens": 8, **changes}))
    assert (finding, caught.value.param) == (finding, param)


@pytest.mark.parametrize(("finding", "changes", "param"), RESPONSES)
def test_responses_refuse_with_the_path(client: OpenAI, finding: str, changes: dict[str, Any], param: str) -> None:
    """As chat does."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**cast("Any", {"model": MODEL, "input": "Hi", "max_output_tokens": 8, **changes}))
    assert (finding, caught.value.param) == (finding, param)


@pytest.mark.parametrize(("finding", "changes", "param"), MESSAGES)
def test_messages_refuse_with_the_path(claude: Anthropic, finding: str, changes: dict[str, Any], param: str) -> None:
    """In Anthropic's form, with our ``param`` beside."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(**cast("Any", {"model": MODEL, "messages": [SAY], "max_tokens": 2000, **changes}))
    body = cast("dict[str, dict[str, Any]]", caught.value.body)
    assert (finding, body["error"]["param"]) == (finding, param)


def test_a_beginning_of_the_answer_is_continued(claude: Anthropic, client: OpenAI) -> None:
    """As chat continues it when asked; chat tells a beginning that it does not continue."""
    turns: Any = [SAY, {"role": "assistant", "content": "1 2 3"}]
    greedy: Any = {"model": MODEL, "messages": turns, "max_tokens": 8, "extra_body": {"temperature": 0}}
    begun = claude.messages.create(**greedy)
    on = {"temperature": 0, "continue_final_message": True, "add_generation_prompt": False}
    chat = client.chat.completions.with_raw_response.create(**{**greedy, "extra_body": on})
    assert [getattr(one, "text", "") for one in begun.content] == [chat.parse().choices[0].message.content]
    counted = claude.messages.count_tokens(model=MODEL, messages=turns)
    usage = chat.parse().usage
    assert usage is not None
    cached = (begun.usage.cache_read_input_tokens or 0) + (begun.usage.cache_creation_input_tokens or 0)
    assert begun.usage.input_tokens + cached == usage.prompt_tokens
    assert counted.input_tokens == usage.prompt_tokens
    assert IGNORED not in chat.headers
    closed = client.chat.completions.with_raw_response.create(**greedy)
    assert closed.headers[IGNORED] == "messages[-1]"


def test_the_last_item_of_a_truncated_stream_is_incomplete(client: OpenAI) -> None:
    """Finding 14: in its own end, and in the response's; events are numbered without a gap."""
    events = list(client.responses.create(model=MODEL, input="Tell a long story.", max_output_tokens=6, stream=True))
    done = [one.item for one in events if one.type == "response.output_item.done"]
    assert [getattr(item, "status", None) for item in done] == ["incomplete"]
    last = events[-1]
    assert last.type == "response.incomplete"
    assert [getattr(item, "status", None) for item in last.response.output] == ["incomplete"]
    assert [one.sequence_number for one in events] == list(range(len(events)))


def test_a_whole_stream_is_completed(client: OpenAI) -> None:
    """The neighbour: an answer that ends by itself has nothing incomplete in it."""
    asked = "What is the capital of Japan? Answer in one word."
    events = list(client.responses.create(model=MODEL, input=asked, max_output_tokens=200, temperature=0, stream=True))
    assert events[-1].type == "response.completed"
    done = [one.item for one in events if one.type == "response.output_item.done"]
    assert [getattr(item, "status", None) for item in done] == ["completed"]


def test_betas_and_fields_of_a_count_are_told(claude: Anthropic) -> None:
    """Finding 20."""
    raw = claude.beta.messages.with_raw_response.create(
        model=MODEL,
        messages=[cast("Any", SAY)],
        max_tokens=4,
        betas=["token-counting-2024-11-01", "context-1m-2025-08-07", "made-up-2099-01-01"],
    )
    assert raw.headers[IGNORED] == "anthropic-beta=context-1m-2025-08-07, anthropic-beta=made-up-2099-01-01"
    counted = claude.messages.with_raw_response.count_tokens(
        model=MODEL, messages=[cast("Any", SAY)], extra_body={"max_tokens": 4}
    )
    assert counted.headers[IGNORED] == "max_tokens"
    assert counted.parse().input_tokens > 0


def test_a_list_of_many_stop_sequences_is_served(claude: Anthropic) -> None:
    """Finding 22: Anthropic documents no limit; the last of 32 stops the answer."""

    def said(*stops: str) -> tuple[str, str | None]:
        made = claude.messages.create(
            model=MODEL,
            messages=[cast("Any", SAY)],
            max_tokens=24,
            stop_sequences=stops,
            extra_body={"temperature": 0},
        )
        assert made.content[0].type == "text"
        return made.content[0].text, made.stop_sequence

    whole, _ = said()
    stop = whole[len(whole) // 2]
    others = [f"no such text {number}" for number in range(31)]
    assert said(*others, stop) == (whole.partition(stop)[0], stop)


def test_a_prompt_is_scored_without_an_answer(client: OpenAI) -> None:
    """Finding 22: ``max_tokens`` of 0 with ``echo`` gives the prompt's log probabilities."""
    made = client.completions.create(model=MODEL, prompt=COUNTING, max_tokens=0, echo=True, logprobs=1)
    (choice,) = made.choices
    assert choice.text == COUNTING
    assert choice.logprobs is not None
    assert "".join(choice.logprobs.tokens or ()) == COUNTING
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt=COUNTING, max_tokens=0)
    assert caught.value.param == "max_tokens"


def test_without_tools_the_choice_is_the_default(client: OpenAI) -> None:
    """Finding 23: echoed as OpenAI does; ``none`` is told to have no effect."""
    assert client.responses.create(model=MODEL, input="Hi", max_output_tokens=4).tool_choice == "auto"
    raw = client.responses.with_raw_response.create(model=MODEL, input="Hi", max_output_tokens=4, tool_choice="none")
    assert raw.headers[IGNORED] == "tool_choice"


def test_an_unknown_expectation_is_refused(platform: Platform) -> None:
    """The attacker's finding 10, by any HTTP client."""
    with platform.http() as http:
        answer = http.get("/v1/models", headers={"expect": "200-maybe"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (417, "unknown_expectation")
