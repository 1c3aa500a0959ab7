"""One reader for all APIs: the same answer, whole or as events, gives the same text, reasoning and tool calls."""

import json

import pytest

from penstock.domain.serving.request import Api
from penstock.gateway.answers.content import Choice, added, choices, first_of_each, only

CALL = {"name": "town", "arguments": '{"of":"x"}'}
WHOLE = {
    Api.CHAT: {
        "choices": [
            {
                "index": 0,
                "message": {
                    "content": "hello",
                    "reasoning": "hm",
                    "tool_calls": [{"id": "t1", "type": "function", "function": CALL}],
                },
                "finish_reason": "tool_calls",
            }
        ]
    },
    Api.RESPONSES: {
        "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "hel"}, {"text": "lo"}]},
            {"type": "function_call", "call_id": "t1", **CALL},
        ],
        "status": "completed",
    },
    Api.MESSAGES: {
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "hello"},
            {"type": "tool_use", "id": "t1", "name": "town", "input": {"of": "x"}},
        ],
        "stop_reason": "tool_use",
    },
}
EVENTS: dict[Api, list[dict[str, object]]] = {
    Api.CHAT: [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"reasoning": "hm"}}]},
        {"choices": [{"delta": {"content": "hello"}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 2, "id": "t1", "function": {"name": "town"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 2, "function": {"arguments": CALL["arguments"]}}]}}]},
        {"choices": [], "usage": {"prompt_tokens": 1}},
    ],
    Api.RESPONSES: [
        {"type": "response.created", "response": {}},
        {"type": "response.reasoning_text.delta", "delta": "hm"},
        {"type": "response.output_text.delta", "delta": "hello"},
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {"type": "function_call", "call_id": "t1", "name": "town"},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": CALL["arguments"]},
    ],
    Api.MESSAGES: [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t1", "name": "town"}},
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": CALL["arguments"]},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ],
}


def joined(found: list[Choice]) -> tuple[str, str, str, str, object]:
    """Return text, reasoning, and the only call's id, name and arguments."""
    calls = [call for choice in found for call in choice.tool_calls]
    functions = [call.function for call in calls if call.function is not None]
    return (
        "".join(choice.said or "" for choice in found),
        "".join(choice.reasoning or "" for choice in found),
        "".join(call.id or "" for call in calls),
        "".join(function.name or "" for function in functions),
        json.loads("".join(function.arguments or "" for function in functions)),
    )


@pytest.mark.parametrize("api", list(WHOLE))
def test_an_answer_reads_the_same_in_every_api_whole_or_streamed(api: Api) -> None:
    """Text, reasoning and tool calls are told apart; events that say nothing of the answer add nothing."""
    expected = ("hello", "hm", "t1", "town", {"of": "x"})
    assert joined(choices(api, json.dumps(WHOLE[api]).encode())) == expected
    found = [choice for event in EVENTS[api] for choice in added(api, json.dumps(event).encode())]
    assert joined(found) == expected


def test_each_choice_of_a_completion_is_read() -> None:
    """With its index, token ids and reasons for stopping."""
    body = {
        "choices": [
            {"index": 1, "text": "b", "token_ids": [2], "finish_reason": "stop", "stop_reason": "x"},
            {"index": 0, "text": "a", "token_ids": [1], "finish_reason": "length"},
        ]
    }
    found = choices(Api.COMPLETIONS, json.dumps(body).encode())
    assert [(one.index, one.said, one.token_ids, one.finish_reason, one.stop_reason) for one in found] == [
        (1, "b", [2], "stop", "x"),
        (0, "a", [1], "length", None),
    ]
    assert first_of_each([json.dumps({"choices": [one]}).encode() for one in body["choices"]])[1].said == "a"


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS, Api.RESPONSES, Api.MESSAGES])
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices":3,"output":3,"content":3,"type":3}'])
def test_other_bytes_are_refused(api: Api, body: bytes) -> None:
    """Neither a body nor an event of the API."""
    for read in (choices, added):
        with pytest.raises(ValueError, match=r"."):
            read(api, body)


def test_the_only_choice_of_several_is_refused() -> None:
    """A reader that compares answers takes one choice alone."""
    with pytest.raises(ValueError, match=r"."):
        only(b'{"choices":[{"text":"a"},{"text":"b"}]}')
