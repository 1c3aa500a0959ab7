"""JSON bodies: read after the caller is known, within the intake's bounds, strict in types and names.

FastAPI validates the result of ``json.loads``, in which a list is no tuple and a word no enum. So pydantic gets the
bytes: its parser is strict, and bounds the depth.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import Body, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import solve_dependencies
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from penstock.domain.errors import InvalidField, MalformedBody, PenstockError

MAX_BODY_BYTES = 4 << 20
"""A worker's report or a model's manifest with its files: 100 KiB are large ones."""
_UNKNOWN = frozenset({"extra_forbidden", "unexpected_keyword_argument"})

T = TypeVar("T")


def _only_json(raw: object) -> object:
    """Refuse what JSON has no word for: pydantic's parser takes ``NaN``, ``Infinity`` and ``1e999``."""
    if isinstance(raw, bytes):
        try:
            msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PydanticKnownError("json_invalid", {"error": str(error)}) from error
    return raw


class _FromJson:
    """Parses bytes of JSON; the OpenAPI document shows the type itself."""

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_only_json, core_schema.json_schema(handler(source)))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["schema"]["schema"])


Sent = Annotated[T, Body(), _FromJson()]
"""A body of this type."""


class _Unparsed(Request):
    """A request that gives its route the body unparsed."""

    async def json(self) -> bytes:
        return await self.body()


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()
        callers = Dependant(path=self.path, dependencies=self.dependant.dependencies)

        async def checked(request: Request) -> Response:
            """Check the caller before the body is read: FastAPI reads first."""
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
    if first["type"] == "json_invalid" or (place == "body" and not path and first["type"] == "missing"):
        return MalformedBody()
    message = "there is no such field" if first["type"] in _UNKNOWN else str(first["msg"])
    return InvalidField(message, param=_written(path) or None)


def _written(path: Sequence[str | int]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).removeprefix(".")
