"""Results of tools without a call of theirs, in the three APIs that have them."""

from typing import Any

import msgspec
import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.openai.parse import parse

TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
USER = {"role": "user", "content": "hi"}


def chat(called: str, answered: object) -> dict[str, Any]:
    call = {"id": called, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"messages": [USER, made, {"role": "tool", "content": "1", "tool_call_id": answered}]}


def messages(called: str, answered: object) -> dict[str, Any]:
    made = {"role": "assistant", "content": [{"type": "tool_use", "id": called, "name": "f", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": answered, "content": "1"}]}
    return {"max_tokens": 5, "tools": [TOOL], "messages": [USER, made, result]}


def responses(called: str, answered: object) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": called, "name": "f", "arguments": "{}"}
    return {"input": [USER, made, {"type": "function_call_output", "call_id": answered, "output": "1"}]}


BODIES = (
    (Api.CHAT, chat, "messages[2].tool_call_id"),
    (Api.MESSAGES, messages, "messages[2].content[0].tool_use_id"),
    (Api.RESPONSES, responses, "input[2].call_id"),
)


@pytest.mark.parametrize(("api", "body", "param"), BODIES)
def test_a_result_needs_a_call_of_its_id(api: Api, body: Any, param: str) -> None:  # noqa: ANN401
    """Both vendors refuse a result under another id; the field's path is told."""
    parse(api, msgspec.json.encode({"model": "m", **body("call_1", "call_1")}))
    with pytest.raises(InvalidField, match="no earlier message calls") as caught:
        parse(api, msgspec.json.encode({"model": "m", **body("call_1", "call_2")}))
    assert caught.value.param == param


@pytest.mark.parametrize(("api", "body", "param"), BODIES)
@pytest.mark.parametrize("odd", [None, 7, [], {}, ""])
def test_an_odd_id_is_refused_and_ends_nothing(api: Api, body: Any, param: str, odd: object) -> None:  # noqa: ANN401
    """Of any JSON type, by the result's own check or by its field's."""
    with pytest.raises(InvalidField) as caught:
        parse(api, msgspec.json.encode({"model": "m", **body("call_1", odd)}))
    assert str(caught.value.param).startswith(param.rpartition(".")[0])


def test_a_call_after_its_result_is_none() -> None:
    """A conversation goes in order."""
    body = chat("c", "c")
    body["messages"] = [USER, *reversed(body["messages"][1:])]
    with pytest.raises(InvalidField):
        parse(Api.CHAT, msgspec.json.encode({"model": "m", **body}))
