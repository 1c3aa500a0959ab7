"""Errors over HTTP, for operators and workers: the platform's error shape.

Gateways have a separate table for callers, with more errors.
"""

from dataclasses import dataclass
from typing import Any

from penstock.domain import errors
from penstock.domain.errors import PenstockError

MESSAGE_CHARS, PARAM_CHARS = 600, 200
"""Bounds on an error's text, independent of the request's size."""
STATUS: dict[type[PenstockError], int] = {
    PenstockError: 500,
    errors.BadRequest: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.UnknownModel: 404,
    errors.UnknownRollout: 404,
    errors.UnknownRoute: 404,
    errors.MethodNotAllowed: 405,
    errors.RequestTimedOut: 408,
    errors.Conflict: 409,
    errors.BodyTooLarge: 413,
    errors.CompressedBody: 415,
    errors.ArtifactRefused: 422,
    errors.TableRefused: 422,
    errors.HeadersTooLarge: 431,
    errors.OverLimit: 429,
    errors.Rejected: 503,
    errors.StoreUnavailable: 503,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFields:
    """An error: message, code, the field at fault, and whether a retry may succeed."""

    message: str
    code: str
    param: str | None
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """The body of every status from 400 on."""

    error: ErrorFields


REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "Refused: nothing was changed."},
    "5XX": {"model": ErrorAnswer, "description": "Failed, or a store is away: retryable says which."},
}
"""The errors of each route, for the OpenAPI document."""


def status_of(error: PenstockError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def fields_of(error: PenstockError) -> ErrorFields:
    status = status_of(error)
    message, param = shortened(error.message, MESSAGE_CHARS), error.param and shortened(error.param, PARAM_CHARS)
    return ErrorFields(message=message, code=error.code, param=param, retryable=status == 503)  # noqa: PLR2004


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
