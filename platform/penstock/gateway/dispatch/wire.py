"""Requests to a worker's gate, and the headers of its answers. Pure.

The caller's JSON passes through, except the platform's fields: the model's served name, the tenant's cache salt, a
stream's usage (hidden from callers that did not ask), and one event per token; and several greedy choices are
rewritten.
"""

import msgspec

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import VersionId
from penstock.domain.models.tensors import HEAD_LENGTH
from penstock.domain.serving.request import Api, InferenceRequest, Sealed
from penstock.gateway.calls import wishes
from penstock.gateway.calls.relay import Rest

REFUSED_HEADER = b"x-penstock-refused"

_STREAM_USAGE = frozenset({Api.CHAT, Api.COMPLETIONS})
"""APIs in which usage of a stream is an option; the others always send it."""

_LAST_USAGE = {"include_usage": True}
_EACH_USAGE = {**_LAST_USAGE, "continuous_usage_stats": True}

_GREEDY_OF_MANY = {"temperature": 1.0, "top_k": 1, "top_p": 1.0, "min_p": 0.0}
"""Greedy decoding expressed as sampling: vLLM 0.32 refuses ``n`` beyond 1 at temperature 0."""

_OURS = ("stream_interval", "service_tier", "prompt_cache_key", "inference_geo", "background", "previous_response_id")
"""Fields that the gateway handles itself."""


def _unsealed(value: object) -> msgspec.Raw:
    if isinstance(value, Sealed):
        return msgspec.Raw(value.json)
    raise NotImplementedError


_ENCODER = msgspec.json.Encoder(enc_hook=_unsealed)


def body_of(request: InferenceRequest, version: VersionEntry, cache_salt: str, *, token_ids: bool = False) -> bytes:
    """Return the JSON for the engine. All of its APIs take ``cache_salt`` (vLLM 0.32)."""
    if request.tensors is not None:
        return request.tensors.data
    body = {**request.body, "model": version.id, "cache_salt": cache_salt}
    if request.cost.sequences > request.cost.prompts and wishes.is_greedy(body, version.sampling.temperature):
        body |= {} if body.get("use_beam_search") else _GREEDY_OF_MANY
    if token_ids:
        body["return_token_ids"] = True
    if request.api is Api.RESPONSES:  # the others take theirs from the header
        body["request_id"] = f"resp_{request.id}"
        body["store"] = False  # vLLM's default is its own memory
    for name in _OURS:
        body.pop(name, None)
    if request.stream and request.api in _STREAM_USAGE:
        body["stream_options"] = _EACH_USAGE if request.usage_each else _LAST_USAGE
    else:
        body.pop("stream_options", None)
    return _ENCODER.encode(body)


def body_of_rest(rest: Rest, version: VersionId, cache_salt: str) -> bytes:
    return _ENCODER.encode({**rest.body, "model": version, "cache_salt": cache_salt})


def headers_of(request: InferenceRequest, ticket: str) -> list[tuple[str, str]]:
    tensors = request.tensors
    headers = [
        ("content-type", "application/json" if tensors is None else "application/octet-stream"),
        ("x-penstock-ticket", ticket),
        ("x-request-id", request.id),
    ]
    if tensors is not None:
        headers.append((HEAD_LENGTH, str(tensors.head_bytes)))
    if request.traceparent:
        headers.append(("traceparent", request.traceparent))
    return headers


def is_stream(headers: list[tuple[bytes, bytes]]) -> bool:
    return header(headers, b"content-type").startswith(b"text/event-stream")


def header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes:
    for key, value in headers:
        if len(key) == len(name) and key.lower() == name:
            return value
    return b""
