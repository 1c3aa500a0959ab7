"""How an answer that a filter ended is said in each API, as a proper end: its last events, or the whole body. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from penstock.domain.serving.request import Api

REASON = "content_filter"
_DONE = b"data: [DONE]\n\n"
_SHARED = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
_encode = msgspec.json.Encoder().encode


def events(
    api: Api, first: Mapping[str, Any], choices: Iterable[int], usage: Mapping[str, int], *, told: bool
) -> bytes:
    """Return the last events of a stream that began with ``first``; ``told``: its caller asked for the usage."""
    if api is Api.RESPONSES:
        return _named("response.incomplete", {"response": _incomplete(first.get("response") or {}, usage)})
    if api is Api.MESSAGES:
        return _refusal(usage)
    head = {name: first[name] for name in _SHARED if name in first}
    said: dict[str, object] = {"text": ""} if api is Api.COMPLETIONS else {"delta": {}}
    ends = [{"index": at, **said, "logprobs": None, "finish_reason": REASON} for at in choices]
    out = [_event({**head, "choices": [end]}) for end in ends]
    if told:
        total = usage["input_tokens"] + usage["output_tokens"]
        counts = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
        out.append(_event({**head, "choices": [], "usage": {**counts, "total_tokens": total}}))
    return b"".join([*out, _DONE])


def body(api: Api, answer: dict[str, Any], choices: Collection[int]) -> dict[str, Any]:
    """Return a whole answer, the texts of which end before the match, with the reason in these choices."""
    if api is Api.RESPONSES:
        kept = [item for item in answer.get("output") or [] if item.get("type") != "function_call"]
        return _incomplete({**answer, "output": kept}, None)
    if api is Api.MESSAGES:
        kept = [block for block in answer.get("content") or [] if block.get("type") != "tool_use"]
        return {**answer, "content": kept, "stop_reason": "refusal"}
    for choice in answer.get("choices") or []:
        if choice["index"] not in choices:
            continue
        choice["finish_reason"] = REASON
        if isinstance(message := choice.get("message"), dict) and message.get("tool_calls"):
            message["tool_calls"] = []
    return answer


def _incomplete(response: Mapping[str, Any], usage: Mapping[str, int] | None) -> dict[str, Any]:
    told = {**usage, "total_tokens": sum(usage.values())} if usage is not None else response.get("usage")
    return {**response, "status": "incomplete", "incomplete_details": {"reason": REASON}, "usage": told}


def _refusal(usage: Mapping[str, int]) -> bytes:
    details = {"type": "refusal", "category": REASON, "explanation": None}
    delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
    ended = {"delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    return _named("message_delta", ended) + _named("message_stop", {})


def _event(body: Mapping[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(body)


def _named(kind: str, body: Mapping[str, object]) -> bytes:
    return b"event: %b\n" % kind.encode() + _event({"type": kind, **body})
