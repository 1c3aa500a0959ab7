"""Chat through the official SDK against the real platform: what the engine can, passes through."""

import json
from typing import Any

import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.support.engines.likeness import DRAWS, agreeing

pytestmark = pytest.mark.integration

JAPAN: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the capital of Japan?"}]


def test_a_question_is_answered(client: OpenAI) -> None:
    """A unary chat completion answers right, counts its tokens and names the version that answered."""
    answer = client.chat.completions.create(model="smollm2", messages=JAPAN, temperature=0, max_tokens=16)
    assert "Tokyo" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_says_the_same_as_the_unary_answer(client: OpenAI) -> None:
    """Greedy decoding gives the same text in pieces, ending with one finish reason."""
    unary = client.chat.completions.create(model="smollm2", messages=JAPAN, temperature=0, max_tokens=16)
    stream = client.chat.completions.create(model="smollm2", messages=JAPAN, temperature=0, max_tokens=16, stream=True)
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    assert text == unary.choices[0].message.content
    assert reasons == [unary.choices[0].finish_reason]
    assert len(chunks) > 3


def test_usage_in_a_stream_is_shown_only_when_asked_for(client: OpenAI) -> None:
    """The platform always counts; the caller sees the usage chunk only with ``include_usage``."""
    silent = client.chat.completions.create(model="smollm2", messages=JAPAN, max_tokens=4, stream=True)
    assert [chunk.usage for chunk in silent if chunk.usage is not None] == []
    asked = client.chat.completions.create(
        model="smollm2", messages=JAPAN, max_tokens=4, stream=True, stream_options={"include_usage": True}
    )
    shown = [chunk.usage for chunk in asked if chunk.usage is not None]
    assert [usage.completion_tokens for usage in shown] == [4]


def test_several_choices(client: OpenAI) -> None:
    """``n`` gives that many choices."""
    answer = client.chat.completions.create(model="smollm2", messages=JAPAN, n=3, max_tokens=4, temperature=1.0)
    assert sorted(choice.index for choice in answer.choices) == [0, 1, 2]


def test_several_greedy_choices(client: OpenAI) -> None:
    """``n`` at temperature 0 gives the greedy answer as often, whole and streamed; the prompt is billed once."""
    asked: dict[str, Any] = {"model": "smollm2", "temperature": 0, "max_tokens": 6}
    alone = client.chat.completions.create(messages=JAPAN, **asked)
    assert alone.usage is not None
    answer = client.chat.completions.create(messages=JAPAN, n=3, **asked)
    said = alone.choices[0].message.content
    assert [choice.message.content for choice in answer.choices] == [said] * 3
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == alone.usage.prompt_tokens
    assert answer.usage.completion_tokens == 3 * alone.usage.completion_tokens
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(messages=JAPAN, n=3, stream=True, **asked):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [said] * 3
    plain = client.completions.create(prompt="The capital of Japan is", n=2, **asked)
    assert len({choice.text for choice in plain.choices}) == 1
    assert sorted(choice.index for choice in plain.choices) == [0, 1]


def test_usage_comes_with_each_event_if_asked_for(client: OpenAI) -> None:
    """``continuous_usage_stats`` counts each token as it comes, and the end counts them all."""
    stream = client.chat.completions.create(
        model="smollm2",
        messages=JAPAN,
        max_tokens=4,
        stream=True,
        extra_body={"stream_options": {"continuous_usage_stats": True}},
    )
    counts = [None if chunk.usage is None else chunk.usage.completion_tokens for chunk in stream]
    assert counts == sorted(counts, key=lambda count: -1 if count is None else count)
    assert set(counts) >= {1, 2, 3, 4}
    assert None not in counts


def test_what_the_template_does_not_read_is_told(client: OpenAI) -> None:
    """The demo model thinks no more or less, and knows no names: the answer says so."""
    answer = client.chat.completions.with_raw_response.create(
        model="smollm2",
        messages=[{"role": "user", "content": "Hi", "name": "anna"}],
        max_tokens=1,
        reasoning_effort="high",
        extra_body={"chat_template_kwargs": {"mood": "good"}},
    )
    told = set(answer.headers["x-penstock-ignored"].split(", "))
    assert told == {"chat_template_kwargs.mood", "messages[].name", "reasoning_effort"}


def test_log_probabilities(client: OpenAI) -> None:
    """``logprobs`` and ``top_logprobs`` come back for every token."""
    answer = client.chat.completions.create(
        model="smollm2", messages=JAPAN, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [len(token.top_logprobs) for token in logprobs.content] == [2, 2, 2]
    assert all(token.logprob <= 0 for token in logprobs.content)


def test_a_stop_string_ends_the_answer(client: OpenAI) -> None:
    """``stop`` cuts the answer before the string."""
    free = client.chat.completions.create(model="smollm2", messages=JAPAN, temperature=0, max_tokens=16)
    assert "Tokyo" in (free.choices[0].message.content or "")
    cut = client.chat.completions.create(model="smollm2", messages=JAPAN, temperature=0, max_tokens=16, stop="Tokyo")
    assert "Tokyo" not in (cut.choices[0].message.content or "")
    assert cut.choices[0].finish_reason == "stop"


def test_a_seed_repeats_the_answer(client: OpenAI) -> None:
    """With one seed sampled answers are equal; with another they differ."""

    def sampled(seed: int) -> list[str]:
        answer = client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": "Tell me a story."}], seed=seed, extra_body=DRAWS
        )
        return [choice.message.content or "" for choice in answer.choices]

    first = sampled(7)
    assert agreeing(sampled(7), first) > 0.5
    assert agreeing(sampled(70), first) < 0.5


def test_output_limits_and_ignore_eos(client: OpenAI) -> None:
    """``max_completion_tokens`` limits, and the engine's own ``ignore_eos`` passes through to fill it exactly."""
    answer = client.chat.completions.create(
        model="smollm2",
        messages=JAPAN,
        temperature=0,
        max_completion_tokens=40,
        extra_body={"ignore_eos": True},
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 40
    assert answer.choices[0].finish_reason == "length"


def test_content_may_be_a_list(client: OpenAI) -> None:
    """Text parts render to the same prompt as the plain string."""
    parts: list[ChatCompletionMessageParam] = [
        {"role": "user", "content": [{"type": "text", "text": "What is the capital of Japan?"}]}
    ]
    plain = client.chat.completions.create(model="smollm2", messages=JAPAN, temperature=0, max_tokens=8)
    listed = client.chat.completions.create(model="smollm2", messages=parts, temperature=0, max_tokens=8)
    assert listed.choices[0].message.content == plain.choices[0].message.content
    assert listed.usage == plain.usage


def test_a_json_schema_holds_the_answer(client: OpenAI) -> None:
    """Structured output obeys the schema, whatever so small a model would rather say."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "big": {"type": "boolean"}},
        "required": ["city", "big"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model="smollm2",
        messages=JAPAN,
        temperature=0,
        max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
    )
    found = json.loads(answer.choices[0].message.content or "")
    assert set(found) == {"city", "big"}
    assert isinstance(found["big"], bool)


def test_a_named_tool_is_called(client: OpenAI) -> None:
    """A tool that the caller insists on comes back as a call with arguments of its schema."""
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": "What is the weather in Tokyo?"}],
        temperature=0,
        max_tokens=60,
        tools=[{"type": "function", "function": {"name": "weather", "parameters": parameters, "strict": True}}],
        tool_choice={"type": "function", "function": {"name": "weather"}},
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.name == "weather"
    assert set(json.loads(calls[0].function.arguments)) == {"city"}
