"""What an error looks like to operators and workers: the platform's error shape over HTTP.

The gateways have a table of their own for callers; here fewer things can go wrong.
"""

from typing import TypedDict

from penstock.domain import errors
from penstock.domain.errors import PenstockError

STATUS: dict[type[PenstockError], int] = {
    PenstockError: 500,
    errors.BadRequest: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.UnknownModel: 404,
    errors.UnknownRollout: 404,
    errors.UnknownRoute: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.BodyTooLarge: 413,
    errors.ArtifactRefused: 422,
    errors.TableRefused: 422,
    errors.Rejected: 503,
    errors.StoreUnavailable: 503,
}


class ErrorFields(TypedDict):
    """What an error says."""

    message: str
    code: str
    param: str | None
    retryable: bool


def status_of(error: PenstockError) -> int:
    """Return the HTTP status; a class without a line of its own takes its parent's."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def fields_of(error: PenstockError) -> ErrorFields:
    """Return the body's ``error`` object."""
    status = status_of(error)
    return ErrorFields(message=error.message, code=error.code, param=error.param, retryable=status == 503)  # noqa: PLR2004
