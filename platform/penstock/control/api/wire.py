"""JSON bodies: read after the caller is authenticated, within the intake's bounds, strict in types and names.

Pydantic gets the bytes, since its parser bounds nesting. FastAPI would pass it the result of ``json.loads``, in which
strict pydantic takes no list for a tuple and no text for an enum.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Body, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_dependant, solve_dependencies
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from penstock.control.api import bounds
from penstock.domain.errors import InvalidField, MalformedBody, PenstockError
from penstock.formats.documents import DocumentRefused, json_of

MAX_BODY_BYTES = 4 << 20
"""Bytes of a worker's report or a model's manifest with its files: 100 KiB are large ones."""
_NO_JSON, _BEYOND = "no_json", "out_of_bounds"
_MALFORMED = frozenset({"json_invalid", _NO_JSON})
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""An engine's log lines may contain NUL, which the database can't store."""
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

T = TypeVar("T")


def _sound(raw: object) -> object:
    """Return the bytes unchanged; refuse input that pydantic's parser accepts: ``NaN``, ``Infinity``, ``1e999``, a name
    twice in an object, values out of bounds.
    """
    if isinstance(raw, bytes):
        try:
            bounds.check(json_of(raw))
        except bounds.OutOfBounds as error:
            raise PydanticCustomError(_BEYOND, "{says}", {"says": str(error), "path": error.path}) from error
        except DocumentRefused as error:
            raise PydanticCustomError(_NO_JSON, "{says}", {"says": str(error), "twice": error.twice}) from error
    return raw


class _FromJson:
    """Makes FastAPI parse the raw JSON bytes into the annotated type, and show that type in the OpenAPI document."""

    def __init__(self, check: Callable[[object], object]) -> None:
        self._check = check

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, core_schema.json_schema(handler(source)))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["schema"]["schema"])


def _without_nul(raw: object) -> object:
    return _NUL.sub(rb"\1 ", raw) if isinstance(raw, bytes) else raw


Sent = Annotated[T, Body(), _FromJson(_sound)]
"""A person's body of this type."""
Reported = Annotated[T, Body(), _FromJson(_without_nul)]
"""A worker's body of this type, which may quote an engine's log lines."""


def check_address(request: Request) -> None:
    """Raise ``InvalidField`` for an unknown or repeated query parameter, and for a value out of bounds."""
    route: APIRoute = request.scope["route"]
    known = {one.alias for one in get_flat_dependant(route.dependant).query_params}
    seen = set[str]()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            told = f"there are: {', '.join(sorted(known))}" if known else "it takes none"
            raise InvalidField(f"there is no such parameter; {told}", param=name)
        if name in seen:
            raise InvalidField("it is given twice", param=name)
        seen.add(name)
    for name, value in (*request.query_params.items(), *request.path_params.items()):
        try:
            bounds.check_text(str(value), name)
        except bounds.OutOfBounds as error:
            raise InvalidField(str(error), param=name) from error


class _Unparsed(Request):
    """A request that passes the raw body to its route."""

    async def json(self) -> bytes:
        return await self.body()


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()
        callers = Dependant(path=self.path, dependencies=self.dependant.dependencies)

        async def checked(request: Request) -> Response:
            """Authenticate the caller before the body is read: FastAPI reads the body first."""
            sent = _Unparsed(request.scope, request.receive)
            if self.body_field is not None:
                stack = request.scope["fastapi_inner_astack"]
                found = await solve_dependencies(
                    request=sent, dependant=callers, async_exit_stack=stack, embed_body_fields=False
                )
                if found.errors:
                    raise RequestValidationError(found.errors)
                await sent.body()
            return await handle(sent)

        return checked


def refusal_of(error: RequestValidationError) -> PenstockError:
    found: Sequence[dict[str, Any]] = error.errors()
    first = next((one for one in found if one["type"] in _UNKNOWN), found[0])
    place, *path = first["loc"]
    if first["type"] == _NO_JSON and first["ctx"]["twice"]:
        return InvalidField("this key occurs twice in one object", param=first["ctx"]["twice"])
    if first["type"] == _BEYOND:
        return InvalidField(str(first["msg"]), param=first["ctx"]["path"] or None)
    if first["type"] in _MALFORMED or (place == "body" and not path and first["type"] == "missing"):
        return MalformedBody()
    message = "there is no such field" if first["type"] in _UNKNOWN else str(first["msg"])
    return InvalidField(message, param=_written(path) or None)


def _written(path: Sequence[str | int]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).removeprefix(".")
