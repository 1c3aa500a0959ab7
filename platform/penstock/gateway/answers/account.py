"""Reads the end of an answer of any API: usage, finish reason, engine times, engine error. Pure."""

import msgspec

from penstock.domain.errors import EngineRefused
from penstock.domain.outcome import FinishReason
from penstock.domain.tokens import Usage
from penstock.gateway.answers.engine_words import sentence


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = 0


class RawUsage(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: _Details | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0


class EngineTimes(msgspec.Struct, gc=False):
    """vLLM's per-request times (``--enable-per-request-metrics``), in milliseconds."""

    queue_time_ms: float | None = None
    time_to_first_token_ms: float | None = None
    generation_time_ms: float | None = None


class _Ended(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _Stop(msgspec.Struct, gc=False):
    stop_reason: str | None = None


class _Inner(msgspec.Struct, gc=False):
    usage: RawUsage | None = None
    status: str | None = None
    stop_reason: str | None = None


class _Body(msgspec.Struct, gc=False):
    choices: list[_Ended] | None = None
    usage: RawUsage | None = None
    metrics: EngineTimes | None = None
    stop_reason: str | None = None
    status: str | None = None
    delta: _Stop | str | None = None
    response: _Inner | None = None
    message: _Inner | None = None


class Account(msgspec.Struct, frozen=True, gc=False):
    usage: Usage | None = None
    finish: FinishReason | None = None
    metrics: EngineTimes | None = None
    is_usage_only: bool = False


class _Fault(msgspec.Struct, gc=False):
    message: str = ""
    code: int | str | None = None
    param: str | None = None


class _Faulty(msgspec.Struct, gc=False):
    error: _Fault


_DECODER = msgspec.json.Decoder(_Body)
_NOTHING = Account()
_CLIENT_ERRORS = range(400, 500)

_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "incomplete": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "abort": FinishReason.CANCELLED,
} | {reason.value: reason for reason in FinishReason}


def read(body: bytes) -> Account:
    try:
        decoded = _DECODER.decode(body)
    except msgspec.MsgspecError:
        return _NOTHING
    inner = decoded.response or decoded.message
    usage = decoded.usage or (inner.usage if inner else None)
    return Account(
        usage=_usage(usage) if usage else None,
        finish=_finish(decoded, inner),
        metrics=decoded.metrics,
        is_usage_only=decoded.choices is not None and not decoded.choices and usage is not None,
    )


def error_message(event: bytes) -> str | None:
    fault = _fault(event)
    return fault.message or None if fault is not None else None


def refusal(event: bytes) -> EngineRefused | None:
    fault = _fault(event)
    if fault is None:
        return None
    is_callers = isinstance(fault.code, int) and fault.code in _CLIENT_ERRORS
    if not is_callers:
        return None
    said, param = sentence(fault.message, fault.param or "")
    return EngineRefused(said or None, param=param or None)


def _fault(event: bytes) -> _Fault | None:
    try:
        return msgspec.json.decode(event, type=_Faulty).error
    except msgspec.MsgspecError:
        return None


def _usage(said: RawUsage) -> Usage:
    """Messages report cached prompt tokens separately, so they are added."""
    details = said.prompt_tokens_details or said.input_tokens_details
    read, made = said.cache_read_input_tokens or 0, said.cache_creation_input_tokens or 0
    prompt = max(0, said.prompt_tokens or said.input_tokens + read + made)
    return Usage(
        prompt_tokens=prompt,
        output_tokens=max(0, said.completion_tokens or said.output_tokens),
        cached_tokens=min(prompt, max(0, (details.cached_tokens if details else 0) or read)),
    )


def _finish(body: _Body, inner: _Inner | None) -> FinishReason | None:
    said: str | None = None
    if body.choices:
        said = next((c.finish_reason for c in body.choices if c.finish_reason), None)
    elif isinstance(body.delta, _Stop):
        said = body.delta.stop_reason
    elif inner is not None:
        said = inner.stop_reason or inner.status
    else:
        said = body.stop_reason or body.status
    return _REASONS.get(said) if said else None


def merged(before: Usage | None, said: Usage) -> Usage:
    if before is None:
        return said
    prompt = said.prompt_tokens or before.prompt_tokens
    return Usage(
        prompt_tokens=prompt,
        output_tokens=said.output_tokens or before.output_tokens,
        cached_tokens=min(prompt, said.cached_tokens or before.cached_tokens),
    )
