"""A stored conversation as a prompt: its items so far, the last output, the new input. Pure.

Items are joined as JSON bytes and decoded by the request's one parser, so that stored turns meet the bounds, the checks
and the count of any other prompt. Trade-off: each response keeps its whole context, which reads one object for a turn
and costs a conversation's bytes once for each of its turns.
"""

from collections.abc import Mapping, Sequence

import msgspec

from penstock.domain.serving.request import Sealed
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.shapes import Paged

Item = dict[str, object]

_USERS = b'[{"type":"message","role":"user","content":%b}]'
_SPOKEN = {"user": "input_text", "system": "input_text", "developer": "input_text", "assistant": "output_text"}
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}
_CALLS = frozenset({"function_call", "custom_tool_call"})
_KEPT = {
    "message": ("type", "id", "role"),
    "function_call": ("type", "id", "call_id", "name", "namespace", "arguments", "status"),
    "custom_tool_call": ("type", "id", "call_id", "name", "namespace", "input"),
    "reasoning": ("type", "id", "summary", "content"),
}
"""By kind of an output item, the fields that an input item has, too."""
_ENCODER = msgspec.json.Encoder()
_ITEMS = msgspec.json.Decoder(list[Item])


class _Output(msgspec.Struct):
    output: list[Item]


_COUNTED = msgspec.json.Decoder(list[msgspec.Raw])
_OUTPUT = msgspec.json.Decoder(_Output)


def context_of(body: Mapping[str, object]) -> bytes:
    given = body["input"]
    json = given.json if isinstance(given, Sealed) else _ENCODER.encode(given)
    return _USERS % json if json[:1] == b'"' else json


def replayed(answer: bytes) -> bytes:
    """Reasoning belongs to the calls after it: without any, the next turn leaves it out, as OpenAI and vLLM do."""
    output = _OUTPUT.decode(answer).output
    calls = any(item.get("type") in _CALLS for item in output)
    items = [_input(item) for item in output if item.get("type") in _KEPT and (calls or item["type"] != "reasoning")]
    return _ENCODER.encode([item for item in items if item.get("content") != []])


def _input(item: Item) -> Item:
    shown: Item = {name: item[name] for name in _KEPT[str(item["type"])] if item.get(name) is not None}
    if item["type"] == "message":
        parts = item.get("content")
        texts = [part["text"] for part in parts if part.get("text")] if isinstance(parts, list) else []
        shown["content"] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        shown["status"] = "completed"  # an incomplete one would be continued, not answered
    return shown


def joined(*parts: bytes) -> bytes:
    inside = [part.strip()[1:-1].strip() for part in parts]
    return b"[%b]" % b",".join(filter(None, inside))


def count(context: bytes) -> int:
    return len(_COUNTED.decode(context))


def listed(context: bytes) -> Sequence[Item]:
    return [_shown(item, number) for number, item in enumerate(_ITEMS.decode(context))]


def _shown(item: Item, number: int) -> Item:
    kind = str(item.get("type") or "message")
    shown = {"id": f"{_PREFIXES.get(kind, 'item')}_{number:06d}", "type": kind, **item}
    if kind == "message":
        content = item.get("content")
        if isinstance(content, str):
            part: Item = {"type": _SPOKEN.get(str(item.get("role")), "input_text"), "text": content}
            shown["content"] = [part | ({"annotations": []} if part["type"] == "output_text" else {})]
        shown.setdefault("status", "completed")
    return shown


def asked(query: Mapping[str, str]) -> Paged:
    """Items may have the ids that their callers gave."""
    after = query.get("after", "")
    plain = shapes.paged({name: query[name] for name in ("limit", "order") if name in query})
    return Paged(after=after, limit=plain.limit, is_oldest_first=plain.is_oldest_first)


def paged(items: Sequence[Item], page: Paged) -> tuple[Sequence[Item], bool]:
    """Also whether there are more. Raises ``InvalidField``."""
    ordered = items if page.is_oldest_first else items[::-1]
    start = 0
    if page.after:
        start = next((at + 1 for at, item in enumerate(ordered) if item["id"] == page.after), 0)
        if not start:
            raise shapes.unlisted()
    return ordered[start : start + page.limit], len(ordered) > start + page.limit
