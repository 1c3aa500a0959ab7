"""Brings a request's messages into the form that the engine passes to its chat template. Pure.

Content unknown here (images, audio) raises ``EngineOnly``: then only the engine counts. Source: vLLM 0.32,
``renderers/chat_utils.py``, ``renderers/hf.py``.
"""

import json

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.formats.chat_template import ChatTemplate, Message
from penstock.gateway.preprocess import translate
from penstock.gateway.preprocess.translate import Body, EngineOnly

_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_SYSTEM = frozenset({"system", "developer"})


def of_request(api: Api, body: Body, template: ChatTemplate) -> list[Message]:
    """Return the conversation; raises ``EngineOnly`` or ``InvalidField``."""
    if api is Api.RESPONSES:
        said = translate.from_responses(body)
    elif api is Api.MESSAGES:
        said = translate.from_messages(body)
    else:
        said = translate.listed(body.get("messages"))
    messages = [_message(message, wants_parts=template.wants_parts) for message in said]
    return messages if template.knows_developers else _without_developers(messages)


def tools_of(api: Api, body: Body) -> list[object] | None:
    """Fields in the engine's order, absent ones null."""
    if api is Api.RESPONSES:
        return translate.tools_of_responses(body)
    if api is Api.MESSAGES:
        return translate.tools_of_messages(body)
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


# -- messages --------------------------------------------------------------------------


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
    """Arguments as an object, since templates expect a mapping."""
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
    """Join system and developer messages into one system message, if the template has no developer role."""
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
