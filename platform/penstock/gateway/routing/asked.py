"""Properties of a request that the rules of an auto alias test. Pure.

Tools and images are searched for in the whole conversation, so that the properties only grow from one request of a
conversation to the next.

Trade-off: an argument of an assistant's tool call may look like an image; the request then goes to a model with vision,
or is refused with that reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.domain.money import MicroUsd
from penstock.domain.serving.auto import Caller, caller_of
from penstock.domain.serving.request import Api, InferenceRequest, Sealed
from penstock.domain.tenancy.standing import standing_of
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.wishes import is_structured, uses_tools

_MEDIA = r"(?:input_)?(?:image|audio|video|file|document)[a-z_]*"
_IS_MEDIA = re.compile(_MEDIA)
_MEDIA_JSON = re.compile(rb'"type":"' + _MEDIA.encode() + rb'"')
_TOOLS_JSON = re.compile(rb'"tool_calls":\[\{|"role":"(?:tool|function)"|"type":"(?:tool_|function_|mcp_|custom_tool_)')
"""The encoder's form of a tool field: quotes inside a caller's text are escaped and can't match."""
_TOOL_KINDS = ("tool_", "function_", "mcp_", "custom_tool_")
_TOOL_ROLES = ("tool", "function")


@dataclass(frozen=True, slots=True)
class Asked:
    """``calls``: the answer may call a tool; ``tools``: that, or a tool was called earlier. Deadline 0 is none."""

    api: Api
    calls: bool
    tools: bool
    json: bool
    images: bool
    caller: Caller
    deadline_s: float
    price_cap: MicroUsd


def asked(request: InferenceRequest, principal: Principal) -> Asked:
    """The deadline is the shorter of the caller's and the plan's."""
    calls = uses_tools(request.body)
    had_tools, images = _history(request)
    bounds = [seconds for seconds in (request.deadline_s, principal.plan.deadline_s) if seconds]
    return Asked(
        api=request.api,
        calls=calls,
        tools=calls or had_tools,
        json=is_structured(request.body),
        images=images,
        caller=caller_of(standing_of(principal.plan)),
        deadline_s=min(bounds, default=0.0),
        price_cap=request.price_cap,
    )


def _history(request: InferenceRequest) -> tuple[bool, bool]:
    """Tell whether the conversation used tools, and has images or other media."""
    if not request.api.generates:
        return False, False
    turns = request.body.get("messages") or request.body.get("input")
    if isinstance(turns, Sealed):
        return _TOOLS_JSON.search(turns.json) is not None, _MEDIA_JSON.search(turns.json) is not None
    tools = images = False
    for part in _parts(turns):
        kind = part.get("type")
        if isinstance(kind, str):
            tools = tools or kind.startswith(_TOOL_KINDS)
            images = images or _IS_MEDIA.fullmatch(kind) is not None
        tools = tools or part.get("role") in _TOOL_ROLES or bool(part.get("tool_calls"))
    return tools, images


def _parts(turns: object) -> Iterator[dict[str, object]]:
    for turn in turns if isinstance(turns, list) else ():
        if isinstance(turn, dict):
            yield turn
            for part in _listed(turn, "content", "output"):
                yield part
                yield from _listed(part, "content")


def _listed(turn: dict[str, object], *names: str) -> Iterator[dict[str, object]]:
    for name in names:
        found = turn.get(name)
        yield from (part for part in found if isinstance(part, dict)) if isinstance(found, list) else ()
