"""Shapes that the routes of this room share, as OpenAI's APIs have them: ids, pages, bodies, metadata, answers.

Fields of a body are typed, and unknown ones refused by name. Errors quote names of fields and never their values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from fastapi import Response

from penstock.domain.errors import InvalidField, MalformedBody, UnknownObject, UnsupportedField

Json = Mapping[str, object]
T = TypeVar("T")

PAGE, MOST_PAGE = 20, 100
"""Objects on a page: the number without ``limit``, and the largest ``limit`` (OpenAI's batches)."""
MOST_PAIRS, MOST_NAME_CHARS, MOST_VALUE_CHARS = 16, 64, 512
"""Metadata: OpenAI's own bounds."""
_ID = re.compile(r"[a-z_]+[_-][0-9a-f]{8,64}")
_AT = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)
_FIELD = re.compile(r"^Object (contains unknown|missing required) field `(.*)`$", re.DOTALL)
_ENUM = "Invalid enum value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paged:
    """``after`` is the id of the last object seen; the newest come first."""

    after: str = ""
    limit: int = PAGE
    is_oldest_first: bool = False


def paged(query: Mapping[str, str], *, usual: int = PAGE, most: int = MOST_PAGE) -> Paged:
    given, order, after = query.get("limit", str(usual)), query.get("order", "desc"), query.get("after", "")
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= most):
        raise InvalidField(f"limit is a whole number from 1 to {most}", param="limit")
    if order not in ("asc", "desc"):
        raise InvalidField("order is asc or desc", param="order")
    if after and not _ID.fullmatch(after):
        raise unlisted()
    return Paged(after=after, limit=int(given), is_oldest_first=order == "asc")


def unlisted() -> InvalidField:
    """The list does not have the object that the page follows."""
    return InvalidField("after is no object of this list: send the id of one, or leave it out", param="after")


def listed(found: Sequence[Json], *, has_more: bool) -> Response:
    ends = {"first_id": found[0]["id"], "last_id": found[-1]["id"]} if found else {"first_id": None, "last_id": None}
    return answer({"object": "list", "data": found, **ends, "has_more": has_more})


def named(given: str, *prefixes: str) -> str:
    """Raises ``UnknownObject`` for an id without one of these prefixes."""
    if not _ID.fullmatch(given) or not given.startswith(prefixes):
        raise UnknownObject
    return given


def body(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise _of_field(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody from error


def _of_field(told: str) -> InvalidField:
    found = _AT.match(told)
    said, path = (found[1], found[2] or "") if found else (told, "")
    if (field := _FIELD.match(said)) is not None:
        param = ".".join(filter(None, (path, field[2])))
        if field[1].startswith("missing"):
            return InvalidField(f"{field[2]} is required", param=param)
        return UnsupportedField("there is no such field: leave it out", param=param)
    if said.startswith(_ENUM):
        return InvalidField("the value is not one of those that the API document lists", param=path or None)
    return InvalidField(said, param=path.replace("[...]", "") or None)


def check_metadata(given: Mapping[str, str]) -> None:
    if len(given) > MOST_PAIRS:
        raise InvalidField(f"metadata has more than {MOST_PAIRS} pairs: send fewer", param="metadata")
    for name, value in given.items():
        if not 1 <= len(name) <= MOST_NAME_CHARS or len(value) > MOST_VALUE_CHARS:
            raise InvalidField(
                f"a name in metadata has 1 to {MOST_NAME_CHARS} characters, a value at most {MOST_VALUE_CHARS}",
                param="metadata",
            )
        if "\0" in name or "\0" in value:
            raise InvalidField("metadata can't hold the character NUL", param="metadata")


def answer(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(value)
    return Response(body, status, headers=None if headers is None else dict(headers), media_type="application/json")
