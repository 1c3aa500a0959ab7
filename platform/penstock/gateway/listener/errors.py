"""The published table of errors over HTTP and gRPC, in one place (A10).

Shapes are OpenAI's with the platform's fields, Anthropic's for ``/v1/messages``, the Open Inference Protocol's for
``/v2``, and in-band events.

``retryable``: the same request may succeed if sent again, and has no answer yet.
"""

import math
from dataclasses import dataclass

import msgspec

from penstock.domain import errors
from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId
from penstock.domain.jobs import errors as jobs
from penstock.domain.serving.request import Api
from penstock.filters import errors as filters
from penstock.intake.types import Headers

JSON = (b"content-type", b"application/json")
STORE_RETRY_S = 2.0
"""The wait for a store that tells none while it is away: a database's restart takes some seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """gRPC clients resend after ``UNAVAILABLE`` automatically, so it is used only if that is safe."""

    status: int
    type: str
    anthropic: str
    grpc: str
    retryable: bool = False


_OVER = "RESOURCE_EXHAUSTED"


def _invalid(status: int, grpc: str, *, anthropic: str = "invalid_request_error", retryable: bool = False) -> Row:
    return Row(status=status, type="invalid_request_error", anthropic=anthropic, grpc=grpc, retryable=retryable)


def _same(status: int, name: str, grpc: str, *, retryable: bool = False) -> Row:
    return Row(status=status, type=name, anthropic=name, grpc=grpc, retryable=retryable)


def _quota(*, retryable: bool = False) -> Row:
    return Row(status=402, type="insufficient_quota", anthropic="billing_error", grpc=_OVER, retryable=retryable)


def _ours(status: int, grpc: str, *, retryable: bool = False) -> Row:
    return Row(status=status, type="server_error", anthropic="api_error", grpc=grpc, retryable=retryable)


_INVALID = _invalid(400, "INVALID_ARGUMENT")
_NOT_FOUND = _same(404, "not_found_error", "NOT_FOUND")
_NO_CAPACITY = _same(503, "overloaded_error", "UNAVAILABLE", retryable=True)
_INTERNAL = _ours(500, "INTERNAL")
_UPSTREAM = _ours(502, "INTERNAL")
_LATE = _same(504, "timeout_error", "DEADLINE_EXCEEDED")
_GONE = Row(status=499, type="client_closed_request", anthropic="api_error", grpc="CANCELLED")


TABLE: dict[type[PenstockError], Row] = {
    PenstockError: _INTERNAL,
    # change the request
    errors.BadRequest: _INVALID,
    errors.MalformedBody: _INVALID,
    errors.InvalidField: _INVALID,
    errors.UnsupportedField: _INVALID,
    filters.PromptFiltered: _INVALID,
    errors.ContextTooLong: _INVALID,
    errors.UnsupportedByModel: _INVALID,
    errors.TooDear: _INVALID,
    errors.NoRuleFits: _INVALID,
    errors.EngineRefused: _INVALID,
    errors.ExceedsEngine: _INVALID,
    errors.Unauthenticated: _same(401, "authentication_error", "UNAUTHENTICATED"),
    errors.OverBudget: _quota(),
    errors.BudgetHeld: _quota(retryable=True),
    errors.Forbidden: _same(403, "permission_error", "PERMISSION_DENIED"),
    errors.OriginRefused: _same(403, "permission_error", "PERMISSION_DENIED"),
    errors.UnknownModel: _NOT_FOUND,
    errors.UnknownRequest: _NOT_FOUND,
    errors.UnknownObject: _NOT_FOUND,
    errors.UnknownRollout: _NOT_FOUND,
    jobs.PayloadGone: _NOT_FOUND,
    jobs.UnknownPrevious: _INVALID,
    jobs.NotAForm: _INVALID,
    errors.UnknownRoute: _NOT_FOUND,
    errors.MethodNotAllowed: _invalid(405, "UNIMPLEMENTED"),
    errors.RequestTimedOut: _invalid(408, "DEADLINE_EXCEEDED", anthropic="timeout_error", retryable=True),
    errors.Conflict: _invalid(409, "ABORTED"),
    errors.BodyTooLarge: _invalid(413, _OVER, anthropic="request_too_large"),
    errors.CompressedBody: _invalid(415, "INVALID_ARGUMENT"),
    errors.UnknownExpectation: _invalid(417, "INVALID_ARGUMENT"),
    jobs.WindowNotOffered: _invalid(422, "INVALID_ARGUMENT"),
    errors.IdempotencyMismatch: _invalid(422, "INVALID_ARGUMENT"),
    errors.ArtifactRefused: _invalid(422, "INVALID_ARGUMENT"),
    errors.TableRefused: _invalid(422, "INVALID_ARGUMENT"),
    errors.HeadersTooLarge: _invalid(431, _OVER),
    # come back later
    errors.OverLimit: _same(429, "rate_limit_error", _OVER, retryable=True),
    jobs.OverEnqueued: _same(429, "rate_limit_error", _OVER, retryable=True),
    errors.ExceedsLimit: _same(429, "rate_limit_error", _OVER),
    errors.Rejected: _NO_CAPACITY,
    errors.NoCapacity: _NO_CAPACITY,
    errors.Asleep: _NO_CAPACITY,
    errors.Overloaded: _NO_CAPACITY,
    errors.DeadlineUnreachable: _NO_CAPACITY,
    errors.Draining: _NO_CAPACITY,
    errors.StoreUnavailable: _NO_CAPACITY,
    jobs.NoFileRoom: _same(429, "rate_limit_error", _OVER),
    jobs.StorageFull: _same(507, "overloaded_error", _OVER, retryable=True),
    # waited, never ran
    errors.Evicted: _NO_CAPACITY,
    errors.DeadlineInQueue: _same(504, "timeout_error", "DEADLINE_EXCEEDED", retryable=True),
    # may have run
    errors.ClientGone: _GONE,
    errors.ReaderTooSlow: _GONE,
    errors.BudgetReached: _quota(),
    errors.LimitReached: _same(429, "rate_limit_error", _OVER),
    filters.AnswerFiltered: _INVALID,
    errors.Failed: _INTERNAL,
    jobs.PayloadUnreadable: _INTERNAL,
    errors.EngineError: _UPSTREAM,
    errors.AnswerUnformed: _UPSTREAM,
    errors.WorkerLost: _ours(502, "UNAVAILABLE", retryable=True),
    errors.LastWorkerLost: _NO_CAPACITY,
    errors.LosesWorkers: _UPSTREAM,
    errors.StreamBroken: _UPSTREAM,
    errors.DeadlineExceeded: _LATE,
}


def row_of(error: PenstockError) -> Row:
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def retry_after_s(error: PenstockError) -> int | None:
    """Whole seconds, rounded up, at least one; None if unknown."""
    seconds = _wait_s(error)
    return None if seconds is None else max(1, math.ceil(seconds))


def _wait_s(error: PenstockError) -> float | None:
    if error.retry_after_s is not None and math.isfinite(error.retry_after_s):
        return error.retry_after_s
    return STORE_RETRY_S if isinstance(error, errors.StoreUnavailable) else None


def _waits(error: PenstockError) -> Headers:
    """Return the wait in whole seconds, and in milliseconds, which the official SDKs prefer."""
    seconds = _wait_s(error)
    if seconds is None:
        return []
    return [
        (b"retry-after", b"%d" % max(1, math.ceil(seconds))),
        (b"retry-after-ms", b"%d" % max(1, math.ceil(1000 * seconds))),
    ]


def body_of(error: PenstockError, request_id: RequestId, api: Api | None = None) -> dict[str, object]:
    fields = _fields_of(error, request_id, api)
    if api is Api.MESSAGES:
        return {"type": "error", "error": fields, "request_id": request_id}
    if api is Api.INFER:
        return {**fields, "error": fields["message"]}
    return {"error": fields}


def _fields_of(error: PenstockError, request_id: RequestId, api: Api | None = None) -> dict[str, object]:
    row = row_of(error)
    return {
        "message": error.message,
        "type": row.anthropic if api is Api.MESSAGES else row.type,
        "code": error.code,
        "param": error.param,
        "reason": error.reason,
        "request_id": request_id,
        "retryable": row.retryable,
        "retry_after": retry_after_s(error),
    }


def response_of(error: PenstockError, request_id: RequestId, api: Api | None = None) -> tuple[int, Headers, bytes]:
    row = row_of(error)
    body = msgspec.json.encode(body_of(error, request_id, api))
    headers = [JSON, (b"content-length", b"%d" % len(body)), *error.headers, *_waits(error)]
    if error.reason is not None:
        headers.append((b"x-penstock-reason", error.reason.encode()))
    headers.append((b"x-should-retry", b"true" if row.retryable else b"false"))  # the official SDKs obey this one
    if row.status == 401:  # noqa: PLR2004  RFC 9110 wants the challenge with this status
        headers.append((b"www-authenticate", b"Bearer"))
    return row.status, headers, body


def render(error: PenstockError, request_id: RequestId, api: Api) -> bytes:
    """OpenAI's chat streams contain only data, and SDKs raise on an ``error`` in it; Responses streams have flat events
    with a ``type``.
    """
    if api is not Api.RESPONSES:
        return msgspec.json.encode(body_of(error, request_id, api))
    return msgspec.json.encode({**_fields_of(error, request_id), "type": "error"})


def in_band(error: PenstockError, request_id: RequestId, api: Api) -> bytes:
    """Render an error that the gateway itself sends in a stream."""
    name = b"event: error\n" if api in {Api.RESPONSES, Api.MESSAGES} else b""
    return name + b"data: " + render(error, request_id, api) + b"\n\n"
