"""The texts of an answer by channel, and the answer with texts replaced. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.domain.serving.request import Api
from penstock.gateway.answers import content
from penstock.gateway.answers.content import Choice


class Key(NamedTuple):
    """One running text: a choice's content, reasoning, tokens of log probabilities, or a tool call's arguments."""

    choice: int
    kind: str
    call: int = 0


CONTENT, REASONING, TOKENS, CALL = "content", "reasoning", "tokens", "call"
_OFTEN = {(at, kind): Key(at, kind) for at in range(8) for kind in (CONTENT, REASONING)}
_CHANCES = b'"logprobs":'
_WITHOUT = {b'"logprobs":null', b'"logprobs": null'}
_SAYS = {"content": CONTENT, "text": CONTENT, "reasoning": REASONING, "reasoning_content": REASONING}
_REPEATED = frozenset({"text", "content", "delta", "arguments", "partial_json", "thinking", "reasoning"})
_BESIDE = ("logprobs", "token_ids", "prompt_token_ids", "prompt_logprobs")
OPENAI = frozenset({Api.CHAT, Api.COMPLETIONS})
Edit = Callable[[Key, str], str]


def of(choice: Choice, data: bytes) -> Iterator[tuple[Key, str]]:
    """Yield the texts of one choice in ``data``."""
    at = choice.index
    if said := choice.said:
        yield _OFTEN.get((at, CONTENT)) or Key(at, CONTENT), said
    if reasoning := choice.reasoning:
        yield _OFTEN.get((at, REASONING)) or Key(at, REASONING), reasoning
    for call in choice.tool_calls:
        if call.function is not None and call.function.arguments:
            yield Key(at, CALL, call.index), call.function.arguments
    if _CHANCES in data and (tokens := content.chosen_tokens(data, at)):
        yield Key(at, TOKENS), tokens


def edited(body: bytes, edit: Edit) -> dict[str, object]:
    """Return a chat's or completion's JSON with these texts; what repeats them otherwise is null."""
    decoded: dict[str, object] = msgspec.json.decode(body)
    choices = decoded.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        at = int(choice.get("index") or 0)
        for part in (choice, choice.get("delta"), choice.get("message")):
            if isinstance(part, dict):
                _edit_part(part, at, edit)
    return decoded


def _edit_part(part: dict[str, object], at: int, edit: Edit) -> None:
    for name, kind in _SAYS.items():
        if isinstance(said := part.get(name), str):
            part[name] = edit(Key(at, kind), said)
    calls = part.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function")
        if isinstance(function, dict) and isinstance(said := function.get("arguments"), str):
            function["arguments"] = edit(Key(at, CALL, int(call.get("index") or 0)), said)
    part.update({name: None for name in _BESIDE if part.get(name) is not None})


def repeated(value: Any, edit: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON
    """Return an event of Responses or Messages with each of its texts replaced."""
    if isinstance(value, Mapping):
        return {
            name: edit(inner) if name in _REPEATED and isinstance(inner, str) else repeated(inner, edit)
            for name, inner in value.items()
        }
    return [repeated(inner, edit) for inner in value] if isinstance(value, list) else value
