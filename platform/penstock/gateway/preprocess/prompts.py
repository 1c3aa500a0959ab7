"""A request's prompts before tokenisation: texts, or the caller's own token ids. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.domain.errors import InvalidField, UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.formats.chat_template import ChatTemplate, TemplateRefused
from penstock.gateway.preprocess import conversation, options, shown
from penstock.gateway.preprocess.translate import Body, EngineOnly

_MEDIA = re.compile(r'"(?:input_)?(?:image|audio|video|file|document)[a-z_]*"')
"""Names of parts with tokens unrelated to their bytes; quotes inside a caller's text are escaped."""


def outline(body: Body, variables: Mapping[str, object], template: ChatTemplate) -> str:
    """Return a text at least as long as a prompt that only the engine can render; empty if it gives no bound.

    It has all of the caller's text as JSON, the tools if the template shows them, and the template's own text once per
    message. Plain text counts two to five times, until the engine has counted.
    """
    said = json.dumps({name: value for name, value in body.items() if name != "tools"}, ensure_ascii=False)
    if _MEDIA.search(said):
        return ""
    known = {**variables, "tools": _tools(body.get("tools")), "documents": None, "add_generation_prompt": True}
    try:
        whole = template.render([{"role": "user", "content": template.content(said)}], known)
        around = template.render([{"role": "user", "content": template.content("")}], {**known, "tools": None})
    except TemplateRefused:
        return ""
    return whole + around * _messages(body)


def _messages(body: Body) -> int:
    """All items, their parts, and a system message."""
    items = [item for name in ("messages", "input") for item in _list(body.get(name))]
    return 1 + sum(1 + len(_list(item.get("content"))) if isinstance(item, Mapping) else 1 for item in items)


def _tools(tools: object) -> list[object] | None:
    listed: list[object] = []
    for tool in _list(tools):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else tool
        listed.append({"type": "function", "function": function, "name": None, "description": None, "parameters": None})
    return listed or None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


MAX_TOKEN_ID = 2**31 - 1

OUTPUT_FIELDS = {
    Api.CHAT: ("max_completion_tokens", "max_tokens"),
    Api.COMPLETIONS: ("max_tokens",),
    Api.EMBEDDINGS: (),
    Api.CLASSIFY: (),
    Api.INFER: (),
    Api.RESPONSES: ("max_output_tokens",),
    Api.MESSAGES: ("max_tokens",),
}
"""Each API's fields for the output tokens of one answer, in order of precedence."""
_PROMPTED = frozenset({Api.COMPLETIONS, Api.CLASSIFY, Api.INFER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """``param`` names the field to blame if they are too long. If not ``is_exact``, the engine renders another prompt
    with at most the bytes of ``texts``; empty texts mean no bound.
    """

    texts: tuple[str, ...] = ()
    ids: tuple[list[int], ...] = ()
    add_special_tokens: bool = True
    param: str = "messages"
    is_exact: bool = True
    told: tuple[str, ...] = ()
    """Fields that the version's template does not read."""


def requested_output(api: Api, body: Mapping[str, object]) -> int:
    for name in OUTPUT_FIELDS[api]:
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return max(0, value)
    return 0


def is_conversation(request: InferenceRequest) -> bool:
    if request.api is Api.EMBEDDINGS:
        return request.body.get("input") is None
    return request.api not in _PROMPTED


def rendered(request: InferenceRequest, version: VersionEntry, template: ChatTemplate) -> Prompts:
    body = request.body
    shown.check_tools(body, version)
    told = shown.unread(request.api, body, version, template)
    param = "input" if request.api is Api.RESPONSES else "messages"
    try:
        messages = conversation.of_request(request.api, body, template)
        variables = dict(version.special_tokens) | _template_variables(request.api, body)
        variables |= shown.variables(request.api, body, template)
        shown.check(request.api, body, messages, version)
    except EngineOnly:
        text = outline(body, dict(version.special_tokens), template)
        return Prompts(texts=(text,) if text else (), is_exact=False, told=told, param=param)
    try:
        text = template.render(messages, variables, continue_final=options.continues(request.api, body))
    except TemplateRefused as error:
        raise InvalidField(str(error), param=param) from error
    special = options.adds_special_to_chat(request.api, body)
    return Prompts(texts=(text,), add_special_tokens=special, told=told, param=param)


def _template_variables(api: Api, body: Mapping[str, object]) -> dict[str, object]:
    own = body.get("chat_template_kwargs")
    variables: dict[str, object] = {"tools": None, "documents": None}
    if isinstance(own, dict):
        variables |= {str(name): value for name, value in own.items() if name != "messages"}
    if (tools := conversation.tools_of(api, body)) is not None:
        variables["tools"] = tools
    if (documents := options.option(api, body, "documents")) is not None:
        variables["documents"] = documents
    variables["add_generation_prompt"] = options.opens_turn(api, body)
    return variables


def template_source(version: VersionEntry) -> str:
    if not version.chat_template:
        raise UnsupportedByModel(f"{version.id} has no chat template", param="model")
    return version.chat_template


def given(request: InferenceRequest) -> Prompts:
    """Inexact if the caller sends prompt embeddings."""
    param = "prompt" if request.api.generates else "input"
    value = request.body.get(param)
    special = request.body.get("add_special_tokens", True) is not False
    if isinstance(value, str):
        return Prompts(texts=(value,), add_special_tokens=special, param=param)
    if value is None and request.body.get("prompt_embeds") is not None:
        return Prompts(param=param, is_exact=False)
    if not isinstance(value, list) or not value:
        raise InvalidField(f"{param} must be a string or a list that is not empty", param=param)
    texts = tuple(item for item in value if isinstance(item, str))
    if len(texts) == len(value):
        return Prompts(texts=texts, add_special_tokens=special, param=param)
    if all(type(item) is int for item in value):
        return Prompts(ids=(_ids(value, param),), param=param)
    if all(isinstance(item, list) and item for item in value):
        return Prompts(ids=tuple(_ids(item, param) for item in value), param=param)
    raise InvalidField(f"{param} must hold strings, or token ids, and not a mixture", param=param)


def _ids(tokens: list[object], param: str) -> list[int]:
    ids = [token for token in tokens if type(token) is int and 0 <= token <= MAX_TOKEN_ID]
    if len(ids) != len(tokens):
        raise InvalidField(f"{param} has a value that is no token id", param=param)
    return ids
