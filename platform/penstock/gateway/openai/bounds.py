"""Bounds on a body, checked before its values are processed.

Each bound is a published figure, or follows from the largest context served: a longer prompt fits into no model here.
Media must be sent inside the request as ``data:`` addresses: an engine that fetched others would give callers access to
its whole network.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.errors import ContextTooLong, InvalidField
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.openai import schemas
from penstock.gateway.openai.depth import is_too_deep_text
from penstock.gateway.openai.fields import Body, shown
from penstock.gateway.routing.current import CurrentTable

ADDRESSES = frozenset({"image_url", "audio_url", "video_url", "file_url"})
"""Field names of addresses, alone or as the ``url`` of an object."""
TOOL_USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_CALLS = frozenset({"tool_calls", "function_call", "arguments"})
"""Fields of a message or an item that may hold JSON as a string."""
_CONTAINERS = (dict, list)
_PLAIN_FIELDS = 2


def check_media(given: object, at: str) -> None:
    """Refuse addresses other than ``data:``, at any depth."""
    waiting = [(given, at)]
    while waiting:
        one, path = waiting.pop()
        if isinstance(one, dict):
            kind = one.get("type")
            if len(one) == _PLAIN_FIELDS and type(one.get("text")) is str and type(kind) is str:
                continue  # nearly every part: its kind and its text, and no third field
            if type(kind) is str and kind in TOOL_USES:
                continue
            for name in ADDRESSES & one.keys():
                _address(one[name], f"{path}.{name}")
            if kind == "url":
                _address(one.get("url"), f"{path}.url")
            waiting += [(child, f"{path}.{shown(name)}") for name, child in one.items() if type(child) in _CONTAINERS]
        elif isinstance(one, list):
            waiting += [(child, f"{path}[{i}]") for i, child in enumerate(one) if type(child) in _CONTAINERS]


def _address(given: object, at: str) -> None:
    url = given.get("url") if isinstance(given, dict) else given
    if isinstance(url, str) and url[:5].lower() != "data:":
        raise InvalidField("media must be data: URLs: the gateway fetches nothing", param=at)


MAX_FIELDS = 256
"""vLLM 0.32's chat request has 111 fields, the most of all APIs."""
MAX_PARTS = 1_024
"""Parts of one message. Anthropic takes 100 images in a request, OpenAI 500."""
MAX_TEMPLATE_ARGUMENTS = 64
"""More than the switches that chat templates read."""

BYTES_PER_TOKEN = 16
"""A token is 4 to 5 characters of English, and one or two of Chinese, each 6 bytes if JSON escapes it; the rest is for
the JSON around it.
"""
BATCH_TOKENS = 300_000
"""OpenAI's maximum for one embeddings request, over all its inputs."""
MIN_BODY_BYTES = 1 << 20
TENSOR_BYTES = 16 << 20
"""Bytes of a request's tensors: a full batch of the largest shipped model is 16 images of 224 by 224 pixels, in three
colours of four bytes, 9.6 MB. Receiving them costs 25 ms over gRPC, whose library copies each message.
"""

MOST_LENGTH_PENALTY = 32.0
"""Beam scores are divided by length to this power: a float can represent it for any context, and its inverse."""

_BATCHES = frozenset({Api.COMPLETIONS, Api.EMBEDDINGS, Api.CLASSIFY})


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyBounds:
    """``context_tokens``: the largest context of the caller's models or plan; the default, before the first table,
    exceeds every model's. An error names the context's owner by ``context_of``.
    """

    context_tokens: int = 16 << 20
    context_of: str = "the largest context here"

    def body_bytes(self, api: Api) -> int:
        """Enough to fill the largest context, in any language."""
        if api is Api.INFER:
            return TENSOR_BYTES
        tokens = max(self.context_tokens, BATCH_TOKENS) if api in _BATCHES else self.context_tokens
        return max(MIN_BODY_BYTES, tokens * BYTES_PER_TOKEN)


UNBOUNDED = BodyBounds()
"""Bounds before the first routing table."""


def of_table(table: RoutingTable, who: Principal) -> BodyBounds:
    contexts = [version.max_model_len for version in table.versions if who.sees(version.tenants)]
    if not contexts:
        return UNBOUNDED
    longest = who.context(max(contexts))
    if longest == max(contexts):
        return BodyBounds(context_tokens=longest)
    return BodyBounds(context_tokens=longest, context_of=f"the context of this {who.context_of}'s plan")


class TableBounds:
    """Bounds by the present table, cached for callers that see the same versions."""

    def __init__(self, table: CurrentTable) -> None:
        self._table = table
        self._found: dict[tuple[object, ...], BodyBounds] = {}
        table.on_change(lambda *_: self._found.clear())

    def __call__(self, who: Principal) -> BodyBounds:
        view = self._table.view
        seen = (who.tenant, who.role) if view.has_owners else ()
        key = (*seen, who.plan.max_context_tokens, who.context_of)
        if key not in self._found:
            self._found[key] = of_table(view.table, who)
        return self._found[key]


def check(body: Body, bounds: BodyBounds) -> None:
    if len(body) > MAX_FIELDS:
        raise InvalidField(f"the body has more than {MAX_FIELDS} fields")
    for name in body.keys() & _CHECKS.keys():
        if (value := body[name]) is not None:
            _CHECKS[name](value, name, bounds)


def _messages(value: object, at: str, bounds: BodyBounds) -> None:
    if type(value) is not list:
        return
    parts = 0
    for i, item in enumerate(value):
        if type(item) is dict:
            content = item.get("content")
            if type(content) is list:
                parts += _parts(content, f"{at}[{i}].content")
            if _CALLS & item.keys():
                _tool_calls(item, f"{at}[{i}]")
    if parts > bounds.context_tokens:
        raise ContextTooLong(f"{at} holds more parts than {bounds.context_of} has tokens: send fewer", param=at)


def _parts(content: list[object], at: str) -> int:
    if len(content) > MAX_PARTS:
        raise InvalidField(f"a message has more than {MAX_PARTS} parts", param=at)
    check_media(content, at)
    return len(content)


def _tool_calls(item: Body, at: str) -> None:
    """Templates and engines read JSON inside strings by recursion."""
    calls = item.get("tool_calls")
    functions = [call.get("function") for call in calls if type(call) is dict] if type(calls) is list else []
    for function in (item, item.get("function_call"), *functions):
        arguments = function.get("arguments") if type(function) is dict else None
        if type(arguments) is str and is_too_deep_text(arguments):
            raise InvalidField("the arguments are nested too deep", param=f"{at}.arguments")


def _input(value: object, at: str, bounds: BodyBounds) -> None:
    if type(value) is dict:
        check_media(value, at)
    if type(value) is not list or not value:
        return
    if type(value[0]) is dict:
        _messages(value, at, bounds)
        check_media(value, at)
    elif type(value[0]) is int:
        _ids(value, at, bounds)
    elif type(value[0]) is list:
        for item in value:
            _ids(item, at, bounds)


def _ids(value: object, at: str, bounds: BodyBounds) -> None:
    if type(value) is list and len(value) > bounds.context_tokens:
        most = bounds.context_tokens
        raise ContextTooLong(
            f"the prompt has {len(value)} tokens; {bounds.context_of} has {most}: shorten it", param=at
        )


def _system(value: object, at: str, bounds: BodyBounds) -> None:
    del bounds
    if type(value) is list:
        _parts(value, at)


def _template_arguments(value: object, at: str, bounds: BodyBounds) -> None:
    del bounds
    if type(value) is dict and len(value) > MAX_TEMPLATE_ARGUMENTS:
        raise InvalidField(f"{at} holds more than {MAX_TEMPLATE_ARGUMENTS} items", param=at)


def _length_penalty(value: object, at: str, bounds: BodyBounds) -> None:
    del bounds
    try:
        power = float(value) if isinstance(value, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return  # no number that a float holds: the engine says so
    if abs(power) > MOST_LENGTH_PENALTY:
        most = MOST_LENGTH_PENALTY
        raise InvalidField(f"{at} must be between -{most:g} and {most:g}", param=at)


def _schemas(value: object, at: str, bounds: BodyBounds) -> None:
    del bounds
    schemas.check(value, at, at)


_CHECKS: dict[str, Callable[[object, str, BodyBounds], None]] = {
    "messages": _messages,
    "input": _input,
    "prompt": _input,
    "system": _system,
    "chat_template_kwargs": _template_arguments,
    "length_penalty": _length_penalty,
    **dict.fromkeys(
        "structured_outputs response_format text output_config output_format structural_tag".split(), _schemas
    ),
}
