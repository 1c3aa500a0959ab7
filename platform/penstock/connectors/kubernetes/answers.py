"""Parses the API server's answers: the only place that turns its bytes into trusted objects.

Each field that is read is checked; an answer with a missing or mistyped field is refused whole.
"""

from datetime import datetime
from typing import Any, TypeVar, cast

import msgspec

from penstock.connectors.kubernetes.backoff import LONGEST_S

NO_ANSWER, GONE = 0, 410
BOOKMARK = "BOOKMARK"
Json = dict[str, Any]


class ApiRefused(Exception):
    """Status 0 if the API server's answer is missing or unreadable."""

    def __init__(self, status: int, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after_s = status, message, retry_after_s


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str


class _Meta(_Version, rename="camel"):
    name: str
    uid: str
    creation_timestamp: datetime
    deletion_timestamp: str = ""
    generation: int = 0
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class _Container(msgspec.Struct, rename="camel"):
    restart_count: int = 0


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    start_time: datetime | None = None
    container_statuses: list[_Container] = []
    conditions: list[dict[str, object]] = []
    observed_generation: int = 0
    updated_replicas: int = 0
    replicas: int = 0


class _Object(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Mark(msgspec.Struct):
    metadata: _Version


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    following: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _PageMeta
    items: list[_Object]


class _Event(msgspec.Struct):
    type: str
    object: dict[str, object]


class _Failure(msgspec.Struct):
    message: str
    code: int = GONE


_Shape = TypeVar("_Shape")


def page(raw: bytes) -> tuple[list[Json], str, str]:
    """Return objects, version and continue token, which is empty at the end."""
    found = _decoded(raw)
    meta = _shaped(found, _Page).metadata
    return found["items"], meta.resource_version, meta.following


def written(raw: bytes) -> Json:
    found = _decoded(raw)
    _shaped(found, _Object)
    return found


def done(raw: bytes) -> None:
    _decoded(raw)


def event(line: bytes) -> tuple[str, Json]:
    """Type and object; raises ``ApiRefused`` for an error event."""
    found = _decoded(line)
    kind = _shaped(found, _Event).type
    if kind == "ERROR":
        failure = _shaped(found["object"], _Failure)
        raise ApiRefused(failure.code, failure.message)
    _shaped(found["object"], _Mark if kind == BOOKMARK else _Object)
    return kind, found["object"]


def refusal(status: int, body: bytes, retry_after: str) -> ApiRefused:
    """Keep the server's reason, and its retry time within the platform's bound."""
    try:
        message = _shaped(_decoded(body), _Failure).message
    except ApiRefused:
        message = f"status {status}"
    is_number = retry_after.isascii() and retry_after.isdigit()
    return ApiRefused(status, message, min(float(retry_after), LONGEST_S) if is_number else 0.0)


def _decoded(raw: bytes) -> Json:
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
        return cast("Json", _without_nulls(found))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _unreadable(error) from error


def _shaped(found: object, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.convert(found, shape)
    except msgspec.ValidationError as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> ApiRefused:
    return ApiRefused(NO_ANSWER, f"an answer that can't be read: {error}")


def _without_nulls(found: object) -> object:
    if isinstance(found, dict):
        return {name: _without_nulls(value) for name, value in found.items() if value is not None}
    if isinstance(found, list):
        return [_without_nulls(value) for value in found]
    return found
