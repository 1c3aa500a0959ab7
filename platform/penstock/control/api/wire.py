"""JSON bodies: bounded in size before they are read, parsed after the caller is known, strict in types and names.

FastAPI validates the result of ``json.loads``, in which a list is no tuple and a word no enum. So pydantic gets the
bytes: its parser is strict, and bounds the depth.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Body, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from penstock.domain.errors import BodyTooLarge, InvalidField, MalformedBody, PenstockError
from penstock.formats.documents import DocumentRefused, json_of

MAX_BODY_BYTES = 4 << 20
_NO_JSON = "no_json"
_MALFORMED = frozenset({"json_invalid", _NO_JSON})
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

T = TypeVar("T")


def _only_json(raw: object) -> object:
    """Refuse what pydantic's parser takes: ``NaN``, ``Infinity``, ``1e999``, and one name twice in an object."""
    if isinstance(raw, bytes):
        try:
            json_of(raw)
        except DocumentRefused as error:
            raise PydanticCustomError(_NO_JSON, "{says}", {"says": str(error), "twice": error.twice}) from error
    return raw


class _FromJson:
    """Parses bytes of JSON; the OpenAPI document shows the type itself."""

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_only_json, core_schema.json_schema(handler(source)))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["schema"]["schema"])


Sent = Annotated[T, Body(), _FromJson()]
"""A body of this type."""


class _Bounded(Request):
    """A request that reads at most ``MAX_BODY_BYTES`` and leaves them unparsed."""

    async def body(self) -> bytes:
        if not hasattr(self, "_read"):
            raw = bytearray()
            async for piece in self.stream():
                raw += piece
                if len(raw) > MAX_BODY_BYTES:
                    raise BodyTooLarge
            self._read = bytes(raw)
        return self._read

    async def json(self) -> bytes:
        return await self.body()


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            sent = _Bounded(request.scope, request.receive)
            if self.body_field is not None:
                await sent.body()
            return await handle(sent)

        return bounded


def refusal_of(error: RequestValidationError) -> PenstockError:
    found: Sequence[dict[str, Any]] = error.errors()
    first = next((one for one in found if one["type"] in _UNKNOWN), found[0])
    place, *path = first["loc"]
    if first["type"] == _NO_JSON and first["ctx"]["twice"]:
        return InvalidField("it stands twice in one object", param=first["ctx"]["twice"])
    if first["type"] in _MALFORMED or (place == "body" and not path and first["type"] == "missing"):
        return MalformedBody()
    message = "there is no such field" if first["type"] in _UNKNOWN else str(first["msg"])
    return InvalidField(message, param=_written(path) or None)


def _written(path: Sequence[str | int]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).removeprefix(".")


def answer(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
