"""Turns a stream's events into the body that the API gives without a stream. Pure.

Only streams are read that another worker could have continued: one choice, text and reasoning, no tools, no log
probabilities. All other requests are not streamed inside.
"""

from collections.abc import Sequence

import msgspec

from penstock.domain.serving.request import Api
from penstock.gateway.answers import sse
from penstock.gateway.streaming import stages

_DONE = b"[DONE]"


class _Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _Event(msgspec.Struct, gc=False):
    id: str = ""
    created: int = 0
    model: str = ""
    system_fingerprint: str | None = None
    service_tier: str | None = None
    choices: list[_Choice] = []
    usage: msgspec.Raw = msgspec.Raw()
    metrics: msgspec.Raw = msgspec.Raw()


_EVENTS = msgspec.json.Decoder(_Event)


def of_events(api: Api, events: bytes, platforms: bytes) -> bytes:
    """Return the body, with the platform's field; raises ``ValueError`` for a stream without its proper end."""
    read = _EVENTS.decode_lines(b"\n".join(_data(events)))
    choices = [event.choices[0] for event in read if event.choices]
    if not choices or choices[-1].finish_reason is None:
        raise ValueError("a stream without an end")
    first, last = read[0], read[-1]
    body: dict[str, object] = {
        "id": first.id,
        "object": "chat.completion" if api is Api.CHAT else "text_completion",
        "created": first.created,
        "model": first.model,
        "choices": [_chat(choices) if api is Api.CHAT else _completion(choices)],
        "service_tier": first.service_tier,
        "system_fingerprint": first.system_fingerprint or last.system_fingerprint,
        "usage": last.usage if bytes(last.usage) else None,
        **({"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None} if api is Api.CHAT else {}),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": last.metrics if bytes(last.metrics) else None,
    }
    return b"".join(stages.spliced([stages.cache_written(msgspec.json.encode(body))], platforms))


def _data(events: bytes) -> list[bytes]:
    found = (sse.data_of(event) for event in sse.split(events))
    return [data for data in found if data and data != _DONE]


def _ended(choices: Sequence[_Choice]) -> dict[str, object]:
    last = choices[-1]
    return {
        "logprobs": None,
        "finish_reason": last.finish_reason,
        "stop_reason": last.stop_reason,
        "token_ids": None,
        "routed_experts": None,
    }


def _chat(choices: Sequence[_Choice]) -> dict[str, object]:
    deltas = [choice.delta for choice in choices if choice.delta is not None]
    content = [delta.content for delta in deltas if delta.content is not None]
    reasoning = [delta.reasoning for delta in deltas if delta.reasoning is not None]
    message = {
        "role": next((delta.role for delta in deltas if delta.role), "assistant"),
        "content": "".join(content) if content else None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": "".join(reasoning) if reasoning else None,
    }
    return {"index": 0, "message": message, **_ended(choices)}


def _completion(choices: Sequence[_Choice]) -> dict[str, object]:
    text = "".join([choice.text or "" for choice in choices])
    return {"index": 0, "text": text, **_ended(choices), "prompt_logprobs": None, "prompt_token_ids": None}
