"""JSON in and out of the domain's own types: strict where it comes in, bounded in size."""

import re
from typing import TypeVar

import msgspec
from fastapi import Request, Response

from penstock.domain.errors import BodyTooLarge, InvalidField, MalformedBody

MAX_BODY_BYTES = 4 << 20
_PATH = re.compile(r" - at `\$?\.?(?P<path>.*)`$")

T = TypeVar("T")


async def read(request: Request, kind: type[T]) -> T:
    """Return the body as a value of this type, or raise a ``BadRequest`` that names the field at fault."""
    return decode(await body(request), kind)


async def body(request: Request) -> bytes:
    """Return the body, or raise ``BodyTooLarge``."""
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > MAX_BODY_BYTES:
            raise BodyTooLarge
    return bytes(raw)


def decode(raw: bytes, kind: type[T]) -> T:
    """Return JSON as a value of this type, or raise a ``BadRequest``."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        message = str(error)
        at = _PATH.search(message)
        raise InvalidField(_PATH.sub("", message), param=at["path"] if at else None) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedBody from error


def answer(value: object, status: int = 200) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")
