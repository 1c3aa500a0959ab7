"""Checks of single JSON fields; each refusal names the field.

``None`` counts as absent, as in the OpenAI API.
"""

from collections.abc import Mapping, Sequence

from penstock.domain.errors import InvalidField

Body = dict[str, object]
Parts = Mapping[str, frozenset[str]]
"""By role, the kinds of parts that a message may hold; an engine drops others, or shows them under a wrong role."""

_TEXT = frozenset({"text"})
CHAT_PARTS: Parts = {
    "system": _TEXT,
    "developer": _TEXT,
    "user": frozenset({"text", "image_url", "input_audio", "audio_url", "video_url"}),
    "assistant": frozenset({"text", "refusal", "thinking"}),
    "tool": frozenset({"text", "image_url"}),
}
"""OpenAI's, and beyond them vLLM's: sounds and films of users, pictures of tools, an assistant's thoughts."""
MESSAGES_PARTS: Parts = {
    "system": _TEXT,
    "user": frozenset({"text", "image", "tool_result"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
}
"""Anthropic says in prose alone which role has which."""
_ASKED = frozenset({"input_text", "input_image"})
RESPONSES_PARTS: Parts = {
    "system": _ASKED,
    "developer": _ASKED,
    "user": _ASKED,
    "assistant": frozenset({"output_text", "input_text"}),
}
SAME = (
    ("stop", "stop_sequences"),
    ("max_completion_tokens", "max_output_tokens", "max_tokens"),
    ("top_logprobs", "logprobs"),
    ("messages", "input", "prompt"),
    ("response_format", "text", "output_config"),
)
"""Names of one field: an engine's, and those of the APIs."""
_ROLE_OF = {"tool_calls": "assistant", "tool_call_id": "tool"}
MAX_NAME_CHARS = 64
"""Characters of a caller's name in an error; the longest documented one has 30."""
_PLAIN_FIELDS = 2
"""Fields of most messages: role and content."""


def shown(name: str) -> str:
    return name if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]}…"


def whole(body: Body, name: str, *, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int:  # a bool is an int to Python, not to the API
        raise InvalidField(f"{name} must be an integer", param=name)
    if not low <= value <= high:
        raise InvalidField(f"{name} must be between {low} and {high}", param=name)
    return value


def flag(body: Body, name: str) -> bool:
    value = body.get(name)
    if value is None or value is False:
        return False
    if value is not True:
        raise InvalidField(f"{name} must be true or false", param=name)
    return True


def text(body: Body, name: str, *, max_chars: int) -> str:
    value = body.get(name)
    if type(value) is not str or not value:
        raise InvalidField(f"{name} is required and must be a string", param=name)
    if len(value) > max_chars:
        raise InvalidField(f"{name} is longer than {max_chars} characters", param=name)
    return value


def messages(body: Body, name: str, *, most: int, parts: Parts = CHAT_PARTS) -> list[Body]:
    """Require a non-empty list of objects, each with a role and plausible content."""
    turns = body.get(name)
    if type(turns) is not list or not turns:
        raise InvalidField(f"{name} is required and must be a non-empty list", param=name)
    if len(turns) > most:
        raise InvalidField(f"{name} holds more than {most} items", param=name)
    for i, turn in enumerate(turns):
        if type(turn) is not dict:
            raise InvalidField("a message must be an object", param=f"{name}[{i}]")
        role = turn.get("role")
        if type(role) is not str or not role:
            raise InvalidField("a message needs a role", param=f"{name}[{i}].role")
        content = turn.get("content")
        if type(content) is not str:
            _content(content, role, f"{name}[{i}].content", parts)
        if len(turn) > _PLAIN_FIELDS or role == "tool":
            _check_calls(turn, role, f"{name}[{i}]")
    return turns


def _check_calls(turn: Body, role: str, at: str) -> None:
    if role == "tool" and turn.get("tool_call_id") is None:
        raise InvalidField("a tool's result needs the id of its call", param=f"{at}.tool_call_id")
    for name, owner in _ROLE_OF.items():
        if turn.get(name) and role != owner:
            raise InvalidField(f"{name} is a field of messages of the role {owner}", param=f"{at}.{name}")


def _content(content: object, role: str, at: str, parts: Parts) -> None:
    if content is None:
        if role != "assistant":
            raise InvalidField(f"a message of the role {role} needs content", param=at)
        return
    if type(content) is not list:
        raise InvalidField("content must be a string, a list of parts or null", param=at)
    check_parts(content, parts.get(role), at)


def check_parts(content: Sequence[object], kinds: frozenset[str] | None, at: str) -> None:
    for number, part in enumerate(content):
        if type(part) is dict:
            kind = part.get("type")
            if kinds is not None and type(kind) is str and kind not in kinds:
                path = f"{at}[{number}].type"
                raise InvalidField(f"{path} must be one of {', '.join(sorted(kinds))} in this role", param=path)
        elif type(part) is not str:
            raise InvalidField("a part of the content must be an object", param=at)


def prompts(body: Body, name: str, *, most: int) -> int:
    value = body.get(name)
    if type(value) is str:
        return 1
    if type(value) is not list or not value:
        raise InvalidField(f"{name} is required and must be a string or a non-empty list", param=name)
    if type(value[0]) is int:
        _token_ids(value, name)
        return 1
    if len(value) > most:
        raise InvalidField(f"{name} holds more than {most} items", param=name)
    kind = type(value[0])
    if kind not in (str, list) or any(type(item) is not kind for item in value):
        raise InvalidField(f"{name} must be text, token ids, or a list of one of these", param=name)
    if kind is list:
        for item in value:
            _token_ids(item, name)
    return len(value)


def _token_ids(ids: Sequence[object], name: str) -> None:
    if not ids or any(type(i) is not int or i < 0 for i in ids):
        raise InvalidField("token ids must be a non-empty list of integers from 0", param=name)
