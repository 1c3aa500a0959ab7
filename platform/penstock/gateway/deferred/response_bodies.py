"""Response objects as no engine writes them: of a background response that waits, failed or was cancelled. Pure."""

from collections.abc import Mapping

import msgspec

from penstock.domain.jobs.stored_response import ResponseId, ResponseStatus
from penstock.domain.serving.request import Sealed

Object = dict[str, object]

_ECHOED: Mapping[str, object] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": None,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Fields of a request that its response repeats, and their values if they are left out."""
ALIKE = (
    *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "prompt_cache_key", "safety_identifier"),
    *("text", "truncation", "user"),
)
"""Those that are shown as they were asked for at every state; of the others an engine knows more than the request."""
_LIMITS = frozenset({402, 429})
FIRST_OF_SERVER = 500


def _unsealed(value: object) -> msgspec.Raw:
    if isinstance(value, Sealed):
        return msgspec.Raw(value.json)
    raise NotImplementedError


class _StatusFields(msgspec.Struct):
    id: str = ""
    status: str = ""


class _Event(msgspec.Struct):
    response: msgspec.Raw


_ENCODER = msgspec.json.Encoder(enc_hook=_unsealed)
_OBJECT = msgspec.json.Decoder(Object)
_STATUS_FIELDS, _EVENT = msgspec.json.Decoder(_StatusFields), msgspec.json.Decoder(_Event)


def decoded(body: bytes) -> Object:
    return _OBJECT.decode(body)


def encoded(value: Mapping[str, object]) -> bytes:
    return _ENCODER.encode(value)


def id_of(body: bytes) -> str:
    return _STATUS_FIELDS.decode(body).id


def status_of(body: bytes) -> str:
    return _STATUS_FIELDS.decode(body).status


def last_event(body: bytes) -> str:
    """Return the type of a stream's last event; SDKs know none of a cancelled response."""
    status = status_of(body)
    return f"response.{ResponseStatus.INCOMPLETE if status == ResponseStatus.CANCELLED else status}"


def is_answer(body: bytes) -> bool:
    """A model has ended this response, at its end or at a bound."""
    return status_of(body) in (ResponseStatus.COMPLETED, ResponseStatus.INCOMPLETE)


def response_in(event: bytes) -> bytes:
    """Return the response object of an event's data."""
    return bytes(_EVENT.decode(event).response)


def asked_of(body: Mapping[str, object], *names: str) -> Object:
    return {name: _ECHOED[name] if body.get(name) is None else body[name] for name in names}


def shown(engines: Object, own: Object, ended_at: float) -> Object:
    """Return an engine's response object with all fields that OpenAI's has, whichever way it is read."""
    is_complete = engines.get("status") == ResponseStatus.COMPLETED
    return {"error": None, **engines, **own, "completed_at": int(ended_at) if is_complete else None}


def own_fields(response: ResponseId, created_at: float, previous: str | None, *, is_background: bool) -> Object:
    return {
        "id": response,
        "created_at": int(created_at),
        "background": is_background,
        "previous_response_id": previous,
        "store": True,
    }


def beginning(model: str, body: Mapping[str, object], own: Object) -> bytes:
    echoed = asked_of(body, *_ECHOED)
    unknown: Object = {"error": None, "incomplete_details": None, "output": [], "usage": None, "completed_at": None}
    return _ENCODER.encode(
        {**own, "object": "response", "status": ResponseStatus.QUEUED, "model": model, **unknown, **echoed}
    )


def with_status(begun: bytes, status: ResponseStatus, error: Object | None = None) -> Object:
    return {**decoded(begun), "status": status, "error": error}


def error_of(status: int, code: str, answer: bytes) -> Object:
    """The code is among OpenAI's, the message that of the error's own answer."""
    try:
        told = decoded(answer).get("error") if answer else None
    except msgspec.DecodeError:
        told = None
    said = told.get("message") if isinstance(told, dict) else None
    return {"code": _code(status), "message": said or f"the response ended with the error {code or 'server_error'}"}


def _code(status: int) -> str:
    if status in _LIMITS:
        return "rate_limit_exceeded"
    return "server_error" if status >= FIRST_OF_SERVER or not status else "invalid_prompt"


def completed(final: Object, own: Object, ended_at: float, platforms: object = None) -> bytes:
    """``platforms`` is the platform's own field of an answer."""
    more: Object = {} if platforms is None else {"penstock": platforms}
    return msgspec.json.encode({**shown(final, own, ended_at), **more})
