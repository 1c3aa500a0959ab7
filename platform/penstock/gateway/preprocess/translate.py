"""Turns Responses and Messages conversations and tools into chat messages, as the engine does. Pure.

Anything but text, function calls and their results raises ``EngineOnly``: then only the engine counts.
Source: vLLM 0.32, ``entrypoints/anthropic/serving.py``, ``entrypoints/openai/responses/utils.py``; a contract test
compares them.
"""

from collections.abc import Iterable, Mapping

from penstock.domain.errors import InvalidField

Body = Mapping[str, object]
Said = dict[str, object]

_PARTIAL = ("in_progress", "incomplete")
"""The status of an item that the model should continue. A tuple, since a caller's value may be unhashable."""
_BILLING = "x-anthropic-billing-header"
"""The beginning of texts that the engine omits."""
_MESSAGES_UNKNOWN = ("mcp_servers",)
_RESPONSES_UNKNOWN = ("previous_response_id", "prompt")


class EngineOnly(Exception):
    """Only the engine can render this."""


def listed(messages: object) -> list[object]:
    """Return the messages; raises ``InvalidField``."""
    if not isinstance(messages, list) or not messages:
        raise InvalidField("messages must be a list that is not empty", param="messages")
    return messages


# -- Messages --------------------------------------------------------------------------


def from_messages(body: Body) -> list[object]:
    _check(body, _MESSAGES_UNKNOWN)
    system = _system(body.get("system"))
    said: list[object] = [{"role": "system", "content": system}] if system else []
    for message in listed(body.get("messages")):
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            raise EngineOnly
        content = message.get("content")
        if isinstance(content, list):
            said += _blocks(message["role"], content)
        else:
            said.append({"role": message["role"], "content": content})
    return said


def _system(system: object) -> str:
    if not isinstance(system, list):
        return system if isinstance(system, str) else ""
    texts = (str(block.get("text") or "") for block in system if isinstance(block, dict))
    return "".join(text for text in texts if not text.startswith(_BILLING))


def _blocks(role: str, content: list[object]) -> Iterable[Said]:
    blocks = [_object(block) for block in content]
    kinds = ("text", "tool_result") if role == "user" else ("text", "tool_use", "thinking", "redacted_thinking")
    if any(block.get("type") not in kinds for block in blocks):
        raise EngineOnly
    said = [_result(block) for block in blocks if block["type"] == "tool_result"]
    message: Said = {"role": role}
    if texts := [block for block in blocks if block["type"] == "text" and block.get("text")]:
        message["content"] = texts
    if calls := [_use(block) for block in blocks if block["type"] == "tool_use"]:
        message["tool_calls"] = calls
    thoughts = [str(block.get("thinking") or "") for block in blocks if block["type"] == "thinking"]
    if thoughts:
        message["reasoning"] = "".join(thoughts)
    return said if role == "user" and len(message) == 1 else [*said, message]


def _result(block: Said) -> Said:
    content = block.get("content")
    if isinstance(content, list):
        parts = [_object(part) for part in content]
        if any(part.get("type") != "text" for part in parts):
            raise EngineOnly
        content = "\n".join(str(part.get("text", "")) for part in parts)
    return {"role": "tool", "tool_call_id": block.get("tool_use_id") or "", "content": content or ""}


def _use(block: Said) -> Said:
    if not block.get("id"):
        raise EngineOnly  # it gets one by the clock
    return _call(block["id"], block.get("name") or "", block.get("input") or {})


# -- Responses -------------------------------------------------------------------------


def from_responses(body: Body) -> list[object]:
    _check(body, _RESPONSES_UNKNOWN)
    said: list[Said] = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    given = body.get("input")
    if isinstance(given, str):
        return [*said, {"role": "user", "content": given}]
    items = [_object(item) for item in listed(given)]
    if items[-1].get("status") in _PARTIAL:
        raise EngineOnly
    for item in items:
        _add(item, said)
    return [*said]


def _add(item: Said, said: list[Said]) -> None:
    """Consecutive assistant text and calls form one message."""
    kind, last = item.get("type", "message"), said[-1] if said and said[-1]["role"] == "assistant" else None
    if kind == "function_call" and not item.get("namespace"):
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments"))
        calls = last.setdefault("tool_calls", []) if last is not None else []
        assert isinstance(calls, list)  # noqa: S101  made above
        calls.append(call)
        if last is None:
            said.append({"role": "assistant", "tool_calls": calls})
    elif kind == "function_call_output" and isinstance(item.get("output"), str):
        said.append({"role": "tool", "content": item["output"], "tool_call_id": item.get("call_id")})
    elif kind == "message" and item.get("role") == "assistant":
        text = _spoken(item.get("content"))
        if last is not None and last.get("content") is None:
            last["content"] = text
        else:
            said.append({"role": "assistant", "content": text})
    elif kind == "message" and "role" in item:
        said.append({"role": item["role"], "content": item.get("content")})
    else:
        raise EngineOnly


def _spoken(content: object) -> str:
    """The engine reads only the first part of an assistant's message."""
    first = _object(content[0]).get("text") if isinstance(content, list) and content else content
    if not isinstance(first, str):
        raise EngineOnly
    return first


# -- tools -----------------------------------------------------------------------------


def tools_of_messages(body: Body) -> list[object] | None:
    tools = body.get("tools")
    return [_function(_anthropic(_object(tool))) for tool in tools] if isinstance(tools, list) else None


def _anthropic(tool: Said) -> Said:
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise EngineOnly
    return {**tool, "parameters": schema if "type" in schema else {**schema, "type": "object"}}


def tools_of_responses(body: Body) -> list[object] | None:
    tools = body.get("tools")
    if not isinstance(tools, list) or not tools:
        return None
    functions = [_object(tool) for tool in tools]
    if any(tool.get("type") != "function" for tool in functions):
        raise EngineOnly
    return [_function(tool) for tool in functions]


def _function(tool: Said) -> Said:
    if tool.get("defer_loading") is not None:
        raise EngineOnly
    shown: Said = {name: tool.get(name) for name in ("name", "description", "parameters")}
    if tool.get("strict") is not None:
        shown["strict"] = tool["strict"]
    return {"type": "function", "function": shown}


def _call(call_id: object, name: object, arguments: object) -> Said:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _object(value: object) -> Said:
    if not isinstance(value, dict):
        raise EngineOnly
    return value


def _check(body: Body, unknown: Iterable[str]) -> None:
    if any(body.get(name) for name in unknown):
        raise EngineOnly
