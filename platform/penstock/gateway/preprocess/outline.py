"""A text at least as long as a prompt that only the engine can render: an upper bound of the prompt's tokens. Pure.

The text contains all of the caller's text as JSON, the tools if the template shows them, and the template's own text
once per message.

Trade-off: the bound is two to five times the true count for plain text, until the engine has counted.
"""

import json
import re
from collections.abc import Mapping, Sequence

from penstock.formats.chat_template import ChatTemplate, TemplateRefused
from penstock.gateway.preprocess.translate import Body

_MEDIA = re.compile(r'"(?:input_)?(?:image|audio|video|file|document)[a-z_]*"')
"""Names of parts with tokens unrelated to their bytes; quotes inside a caller's text are escaped."""


def of(body: Body, variables: Mapping[str, object], template: ChatTemplate) -> str:
    """Empty if it gives no bound; ``variables`` are the version's."""
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
    shown: list[object] = []
    for tool in _list(tools):
        function = tool.get("function", tool) if isinstance(tool, Mapping) else tool
        shown.append({"type": "function", "function": function, "name": None, "description": None, "parameters": None})
    return shown or None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
