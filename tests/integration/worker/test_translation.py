"""Other APIs' conversations and tools become the chat that vLLM's own code makes of them; no engine runs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.domain.serving.request import Api
from penstock.formats.chat_template import ChatTemplate
from penstock.gateway.preprocess import conversation
from penstock.gateway.preprocess.translate import EngineOnly

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TEMPLATE = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", lambda: datetime.now(tz=UTC))
SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
TEXT = {"type": "text", "text": "Hi"}
USE = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"city": "Rome"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": [TEXT, {"type": "text", "text": "you"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"city": "Rome"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
SPOKEN = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well"}]}
USER = {"role": "user", "content": "Weather?"}

MESSAGES: dict[str, dict[str, Any]] = {
    "texts": {"system": "Be brief.", "messages": [USER]},
    "a billing header": {
        "system": [{"type": "text", "text": "x-anthropic-billing-header: 1"}, TEXT],
        "messages": [{"role": "user", "content": [TEXT, {"type": "text", "text": ""}, TEXT]}],
    },
    "tools": {
        "messages": [USER],
        "tools": [
            {"name": "look_up", "description": "Looks up.", "input_schema": SCHEMA},
            {"name": "bare", "input_schema": {"type": "object"}, "strict": True},
        ],
    },
    "a call": {"messages": [USER, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [RESULT]}]},
    "words around a call": {
        "messages": [
            USER,
            {"role": "assistant", "content": [TEXT, USE, {**USE, "id": "c2", "input": {}}]},
            {"role": "user", "content": [TEXT, RESULT, {**RESULT, "content": "plain"}]},
        ]
    },
    "thoughts": {
        "messages": [
            USER,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, TEXT]},
            USER,
        ]
    },
}
RESPONSES: dict[str, dict[str, Any]] = {
    "text": {"input": "Hi", "instructions": "Be brief."},
    "turns": {"input": [USER, SPOKEN, USER]},
    "calls": {"input": [USER, CALL, {**CALL, "call_id": "c2"}, OUTPUT, {**OUTPUT, "call_id": "c2"}]},
    "words before a call": {"input": [USER, SPOKEN, CALL, OUTPUT, SPOKEN]},
    "a call before words": {"input": [USER, CALL, SPOKEN, OUTPUT]},
    "tools": {
        "input": [USER],
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": False}],
    },
}


def ours(api: Api, body: dict[str, Any]) -> tuple[object, object]:
    """Return the messages and tools that a template is shown."""
    return conversation.of_request(api, body, TEMPLATE), conversation.tools_of(api, body)


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_become_the_same_chat(name: str) -> None:
    """Calls, results, thoughts and tools of Anthropic's API."""
    from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest
    from vllm.entrypoints.anthropic.serving import AnthropicServingMessages

    body = {"model": "m", "max_tokens": 5, **MESSAGES[name]}
    told = AnthropicServingMessages.to_chat_completion_request(AnthropicMessagesRequest(**body))
    chat = json.loads(told.model_dump_json(exclude_none=True))
    theirs = {"messages": chat["messages"], **({"tools": chat["tools"]} if told.tools else {})}
    assert ours(Api.MESSAGES, body) == ours(Api.CHAT, theirs)


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_become_the_same_chat(name: str) -> None:
    """Turns, calls, outputs and functions of the Responses API."""
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
    from vllm.entrypoints.openai.responses.utils import construct_input_messages, construct_tool_dicts

    body = {"model": "m", **RESPONSES[name]}
    told = ResponsesRequest(**body)
    messages = construct_input_messages(request_instructions=told.instructions, request_input=told.input)
    theirs: dict[str, Any] = {"messages": json.loads(json.dumps(messages, default=lambda value: value.model_dump()))}
    if tools := construct_tool_dicts(told.tools, told.tool_choice):
        theirs["tools"] = tools
    assert ours(Api.RESPONSES, body) == ours(Api.CHAT, theirs)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.MESSAGES, {"messages": [USER], "tools": [{"type": "bash_20250124", "name": "bash"}]}),
        (Api.MESSAGES, {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}),
        (Api.MESSAGES, {"messages": [{"role": "system", "content": "x"}, USER]}),
        (Api.RESPONSES, {"input": [USER], "tools": [{"type": "web_search"}]}),
        (Api.RESPONSES, {"input": [{**SPOKEN, "status": "incomplete"}]}),
        (Api.RESPONSES, {"input": [{"type": "reasoning", "summary": []}]}),
    ],
)
def test_what_is_not_translated_is_said_so(api: Api, body: dict[str, Any]) -> None:
    """Nothing is guessed: tools of the provider, images and half-made items are left to the engine."""
    with pytest.raises(EngineOnly):
        ours(api, body)
