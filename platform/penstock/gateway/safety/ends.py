"""How an answer that a filter ended is said in each API, as a proper end: its last events, or the whole body."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from penstock.domain.serving.request import Api
from penstock.gateway.answers import sse
from penstock.gateway.calls.call import Admitted
from penstock.gateway.safety.texts import OPENAI, EventTexts, Key

REASON = "content_filter"
_DONE = b"data: [DONE]\n\n"
_SHARED = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_CALLS = frozenset({"tool_use", "function_call", "custom_tool_call", "mcp_call"})
_encode = msgspec.json.Encoder().encode


class _EventHead(msgspec.Struct, gc=False):
    """What an end has to know of the events before it."""

    type: str = ""
    delta: msgspec.Raw = msgspec.Raw()
    index: int = 0
    output_index: int = 0
    sequence_number: int | None = None
    item: dict[str, Any] | None = None


_EVENT_HEAD = msgspec.json.Decoder(_EventHead)


class EndOf:
    """Follows one stream, so that it can be ended at any event."""

    __slots__ = ("_api", "_call", "_choices", "_ended", "_first", "_items", "_last", "_open", "_texts")

    def __init__(self, call: Admitted) -> None:
        self._call, self._api = call, call.request.api
        self._first = b""
        self._choices, self._ended = set(range(call.request.cost.sequences)), set[int]()
        self._open: int | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}
        self._last: int | None = None

    def saw(self, said: EventTexts, data: bytes) -> None:
        self._first = self._first or data
        self._choices.update(said.choices)

    def left(self, event: bytes, said: EventTexts) -> None:
        """Follow an event that is delivered: what it opened has to be closed."""
        if self._api in OPENAI:
            self._ended.update(said.ended)
            return
        if not (data := sse.data_of(event)).startswith(b"{"):
            return
        told = _EVENT_HEAD.decode(data)
        if told.type in ("content_block_start", "content_block_stop"):
            self._open = told.index if told.type == "content_block_start" else None
        elif told.item is not None:
            self._items[told.output_index] = told.item
        elif told.type.endswith("text.delta"):
            self._texts.setdefault(told.output_index, []).append(msgspec.json.decode(told.delta, type=str))
        self._last = told.sequence_number if told.sequence_number is not None else self._last

    def events(self) -> bytes:
        first: dict[str, Any] = msgspec.json.decode(self._first) if self._first else {}
        usage = {
            "input_tokens": self._call.prepared.prompt_tokens,
            "output_tokens": self._call.lease.delivered,
        }
        if self._api is Api.RESPONSES:
            number = {} if self._last is None else {"sequence_number": self._last + 1}
            response = _incomplete({**(first.get("response") or {}), "output": self._output()}, usage)
            return _named("response.incomplete", {**number, "response": response})
        if self._api is Api.MESSAGES:
            closed = b"" if self._open is None else _named("content_block_stop", {"index": self._open})
            return closed + _refusal(usage)
        return self._last_chunks({name: first[name] for name in _SHARED if name in first}, usage)

    def _last_chunks(self, head: Mapping[str, Any], usage: Mapping[str, int]) -> bytes:
        said: dict[str, object] = {"text": ""} if self._api is Api.COMPLETIONS else {"delta": {}}
        left = sorted(self._choices - self._ended) or [0]
        ends = [{"index": at, **said, "logprobs": None, "finish_reason": REASON} for at in left]
        out = [_event({**head, "choices": [end]}) for end in ends]
        if self._call.request.include_usage:
            counts = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
            out.append(_event({**head, "choices": [], "usage": {**counts, "total_tokens": sum(usage.values())}}))
        return b"".join([*out, _DONE])

    def _output(self) -> list[dict[str, Any]]:
        """Return the delivered items, the texts of those that were going on as far as they were delivered."""
        found = list[dict[str, Any]]()
        for at, item in sorted(self._items.items()):
            if item.get("status") == "completed" or item.get("content"):
                found.append(item)
            elif item.get("type") not in _CALLS:
                kind = "reasoning_text" if item.get("type") == "reasoning" else "output_text"
                part = {"type": kind, "text": "".join(self._texts.get(at, ()))}
                more: dict[str, Any] = {} if kind == "reasoning_text" else {"annotations": []}
                found.append({**item, "status": "incomplete", "content": [{**part, **more}]})
        return found


def body(api: Api, answer: dict[str, Any], blocked: Iterable[Key]) -> dict[str, Any]:
    """Return a whole answer, the texts of which end before these matches, with the reason in their choices."""
    by_choice = {key.choice: key for key in blocked}
    first = min((key.at for key in by_choice.values()), default=-1)
    if api is Api.RESPONSES:
        return _incomplete({**answer, "output": _until(answer.get("output"), first)}, None)
    if api is Api.MESSAGES:
        return {**answer, "content": _until(answer.get("content"), first), "stop_reason": "refusal"}
    for choice in answer.get("choices") or []:
        if choice.get("index", 0) not in by_choice:
            continue
        choice.update({"finish_reason": REASON} | ({"stop_reason": None} if "stop_reason" in choice else {}))
        if isinstance(message := choice.get("message"), dict) and message.get("tool_calls"):
            message["tool_calls"] = []
    return answer


def _until(items: list[dict[str, Any]] | None, last: int) -> list[dict[str, Any]]:
    """Return the items until this one, without a call that would act on half of its arguments."""
    kept = (items or [])[: last + 1]
    return kept[:-1] if kept and kept[-1].get("type") in _CALLS else kept


def _incomplete(response: Mapping[str, Any], usage: Mapping[str, int] | None) -> dict[str, Any]:
    told = response.get("usage") if usage is None else _details(usage)
    return {**response, "status": "incomplete", "incomplete_details": {"reason": REASON}, "usage": told}


def _details(usage: Mapping[str, int]) -> dict[str, Any]:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {**usage, **details, "total_tokens": sum(usage.values())}


def _refusal(usage: Mapping[str, int]) -> bytes:
    details = {"type": "refusal", "category": REASON, "explanation": None}
    delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
    ended = {"delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    return _named("message_delta", ended) + _named("message_stop", {})


def _event(body: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(body)


def _named(kind: str, body: Mapping[str, object]) -> bytes:
    return b"event: %b\n" % kind.encode() + _event({"type": kind, **body})
