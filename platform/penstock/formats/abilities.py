"""Finds by rendering the parts of a conversation that a chat template shows. Pure.

A name in the template's source proves nothing: a template may read tools and show none. Each ability is tested with
words that no template contains.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

from penstock.domain.models.model import Manifest
from penstock.formats.chat_template import ChatTemplate, Message, TemplateRefused


class Ability(StrEnum):
    SYSTEM = "system"
    """The prompt contains a system message's text."""
    TOOLS = "tools"
    """The prompt contains the offered tools."""
    TOOL_TURNS = "tool_turns"
    """The prompt contains earlier calls, with their arguments, and their results."""
    DOCUMENTS = "documents"
    NAMES = "names"
    """The prompt contains a message's name."""
    EFFORT = "effort"
    """The prompt differs for different reasoning efforts."""


_MOST_TEMPLATES = 64
_MARK, _OTHER, _THIRD = "qwertzmark", "yxcvbmark", "asdfgmark"
_FUNCTION = {"name": _MARK, "description": "Says the time.", "parameters": {"type": "object", "properties": {}}}
_TOOLS: list[object] = [{"type": "function", "function": _FUNCTION}]
_CALL = {"id": "call12345", "type": "function", "function": {"name": _MARK, "arguments": {"at": _OTHER}}}
_DOCUMENTS: list[object] = [{"title": _MARK, "text": _MARK, "content": _MARK}]
_NO_EFFORT = "none"
_EFFORTS = (_NO_EFFORT, "low", "high")
_PLAIN: dict[str, object] = {"tools": None, "documents": None, "add_generation_prompt": True}


def abilities(source: str, special_tokens: Iterable[tuple[str, str]] = ()) -> tuple[Ability, ...]:
    """Return the abilities of a chat template's source; none if it is empty or does not compile."""
    if not source:
        return ()
    try:
        template = ChatTemplate(source, lambda: datetime.fromtimestamp(0, tz=UTC))
    except Exception:  # noqa: BLE001  jinja2's own errors of syntax, and what its parser trips on: no ability
        return ()
    return of_template(template, special_tokens)


def of_template(template: ChatTemplate, special_tokens: Iterable[tuple[str, str]] = ()) -> tuple[Ability, ...]:
    known = {**_PLAIN, **dict(special_tokens)}
    turns: list[Message] = [
        _said("user", "Hi", template),
        {"role": "assistant", "content": template.content(""), "tool_calls": [_CALL]},
        {"role": "tool", "content": _THIRD, "tool_call_id": "call12345", "name": _MARK},
    ]
    user = [_said("user", "Hi", template)]
    tried: tuple[tuple[Ability, list[Message], dict[str, object], tuple[str, ...]], ...] = (
        (Ability.SYSTEM, [_said("system", _MARK, template), *user], {}, (_MARK,)),
        (Ability.TOOLS, user, {"tools": _TOOLS}, (_MARK,)),
        (Ability.TOOL_TURNS, turns, {"tools": _TOOLS}, (_MARK, _OTHER, _THIRD)),
        (Ability.DOCUMENTS, user, {"documents": _DOCUMENTS}, (_MARK,)),
        (Ability.NAMES, [{**user[0], "name": _MARK}], {}, (_MARK,)),
    )
    found = tuple(one for one, said, given, marks in tried if _shows(template, said, known | given, marks))
    return (*found, Ability.EFFORT) if _reads_effort(template, user, known) else found


def _reads_effort(template: ChatTemplate, user: list[Message], known: dict[str, object]) -> bool:
    said = [{"reasoning_effort": one, "enable_thinking": one != _NO_EFFORT} for one in _EFFORTS]
    return len({_rendered(template, user, known | given) for given in said}) > 1


def _said(role: str, text: str, template: ChatTemplate) -> Message:
    return {"role": role, "content": template.content(text)}


def _shows(
    template: ChatTemplate, messages: list[Message], variables: dict[str, object], marks: tuple[str, ...]
) -> bool:
    text = _rendered(template, messages, variables)
    return text is not None and all(mark in text for mark in marks)


def _rendered(template: ChatTemplate, messages: list[Message], variables: dict[str, object]) -> str | None:
    try:
        return template.render(messages, variables)
    except TemplateRefused:
        return None


def of_manifest(manifest: Manifest) -> tuple[str, ...]:
    """Return the abilities found at the push; for a manifest without them, find them now."""
    if manifest.renders is not None:
        return manifest.renders
    return tuple(map(str, _known(manifest.chat_template, manifest.special_tokens)))


def shows_tools(manifest: Manifest) -> bool:
    return Ability.TOOLS in of_manifest(manifest)


_known = lru_cache(maxsize=_MOST_TEMPLATES)(abilities)
