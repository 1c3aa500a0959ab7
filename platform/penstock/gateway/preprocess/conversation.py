"""A request's messages as the engine hands them to its chat template. Pure.

What can't be known here (images, sounds, tools of the Responses API) is ``EngineOnly``: then the engine alone counts.
Source: vLLM 0.32, ``renderers/chat_utils.py``, ``renderers/hf.py``, ``entrypoints/anthropic/serving.py``.
"""

import json
from collections.abc import Mapping

from penstock.domain.errors import InvalidField
from penstock.domain.request import Api
from penstock.gateway.preprocess.template import ChatTemplate, Message

Body = Mapping[str, object]

_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_PARTIAL = frozenset({"in_progress", "incomplete"})
"""How an item says that the model is to go on with it."""
_SYSTEM = frozenset({"system", "developer"})
_MESSAGES_ONLY_TEXT = frozenset({"tools", "mcp_servers"})
_RESPONSES_ONLY_TEXT = frozenset({"tools", "previous_response_id", "prompt"})


class EngineOnly(Exception):
    """Only the engine can render this."""


def of_request(api: Api, body: Body, template: ChatTemplate) -> list[Message]:
    """Return the conversation, or raise ``EngineOnly``, or ``InvalidField`` where it is none."""
    if api is Api.RESPONSES:
        said = _from_responses(body)
    elif api is Api.MESSAGES:
        said = _from_messages(body)
    else:
        said = _list(body.get("messages"))
    messages = [_message(message, wants_parts=template.wants_parts) for message in said]
    return messages if template.knows_developers else _without_developers(messages)


def tools_of(body: Body) -> list[object] | None:
    """Return the tools as the engine gives them to the template: fields in its order, absent ones as null."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    return [_tool(tool) for tool in tools]


def _tool(tool: object) -> object:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or not isinstance(function, dict):
        raise InvalidField("tools must hold objects with a function", param="tools")
    shown: dict[str, object] = {name: function.get(name) for name in ("name", "description", "parameters")}
    if function.get("strict") is not None:
        shown["strict"] = function["strict"]
    return {"type": tool.get("type", "function"), "function": shown}


# -- other APIs ----------------------------------------------------------------------


def _from_messages(body: Body) -> list[object]:
    """Translate an Anthropic conversation of plain texts."""
    if any(body.get(name) for name in _MESSAGES_ONLY_TEXT):
        raise EngineOnly
    said: list[object] = []
    system = _joined(body.get("system"))
    if system:
        said.append({"role": "system", "content": system})
    for message in _list(body.get("messages")):
        if not isinstance(message, dict) or message.get("role") == "system":
            raise EngineOnly
        content = message.get("content")
        if isinstance(content, list):
            blocks = [block for block in content if not (isinstance(block, dict) and block.get("text") == "")]
            if not blocks or any(not isinstance(b, dict) or b.get("type") != "text" for b in blocks):
                raise EngineOnly
            content = blocks
        said.append({"role": message.get("role"), "content": content})
    return said


def _from_responses(body: Body) -> list[object]:
    """Translate instructions and input of plain texts."""
    if any(body.get(name) for name in _RESPONSES_ONLY_TEXT):
        raise EngineOnly
    said: list[object] = []
    if body.get("instructions"):
        said.append({"role": "system", "content": body["instructions"]})
    given = body.get("input")
    if isinstance(given, str):
        return [*said, {"role": "user", "content": given}]
    for item in _list(given):
        if isinstance(item, dict) and item.get("status") in _PARTIAL:
            raise EngineOnly
        if not isinstance(item, dict) or item.get("type", "message") != "message" or "role" not in item:
            raise EngineOnly
        said.append({"role": item["role"], "content": item.get("content")})
    return said


def _joined(system: object) -> str:
    if not isinstance(system, list):
        return system if isinstance(system, str) else ""
    return "".join(str(block.get("text") or "") for block in system if isinstance(block, dict))


# -- messages --------------------------------------------------------------------------


def _list(messages: object) -> list[object]:
    if not isinstance(messages, list) or not messages:
        raise InvalidField("messages must be a list that is not empty", param="messages")
    return messages


def _message(message: object, *, wants_parts: bool) -> Message:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise InvalidField("each message must be an object with a role", param="messages")
    role = message["role"]
    parts = _parts(message.get("content"))
    content: object = parts if wants_parts and role != "tool" else "\n".join(str(part["text"]) for part in parts)
    shown: Message = {"role": role, "content": content}
    if role == "assistant":
        _add_assistant(shown, message)
    if role == "tool" and "tool_call_id" in message:
        shown["tool_call_id"] = message["tool_call_id"]
    if role == "developer":
        shown["tools"] = message.get("tools")
    for name in ("name", "task"):
        if isinstance(message.get(name), str):
            shown[name] = message[name]
    return shown


def _add_assistant(shown: Message, message: Message) -> None:
    if message.get("reasoning") is not None:
        shown["reasoning"] = shown["reasoning_content"] = message["reasoning"]
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        shown["tool_calls"] = [_tool_call(call) for call in calls]


def _tool_call(call: object) -> object:
    """Return the call with its arguments as an object: templates expect a mapping."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise InvalidField("tool_calls must hold objects with a function", param="messages")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {}
    return {**call, "function": {**function, "arguments": arguments if isinstance(arguments, dict) else {}}}


def _parts(content: object) -> list[dict[str, object]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise InvalidField("content must be a string or a list of parts", param="messages")
    return [part for part in map(_part, content) if part is not None]


def _part(part: object) -> dict[str, object] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise InvalidField("each content part must be an object", param="messages")
    field = _TEXT_PARTS.get(str(part.get("type")))
    if field is None or "uuid" in part:
        raise EngineOnly
    text = part.get(field)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidField(f"a {part['type']} part must hold a string", param="messages")
    return {"type": "text", "text": text}


def _without_developers(messages: list[Message]) -> list[Message]:
    """Make the system speak for developers where the template knows none, in one message at the beginning."""
    if all(message["role"] != "developer" for message in messages):
        return messages
    systems = [message for message in messages if message["role"] in _SYSTEM]
    others = [message for message in messages if message["role"] not in _SYSTEM]
    if len(systems) == 1 and systems[0] is messages[0]:
        return [{name: value for name, value in systems[0].items() if name != "tools"} | {"role": "system"}, *others]
    texts = (_text(message["content"]) for message in systems)
    return [{"role": "system", "content": "\n\n".join(text for text in texts if text)}, *others]


def _text(content: object) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part["text"]) for part in parts)
