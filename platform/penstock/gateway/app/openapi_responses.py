"""Stored responses in the API document: their routes, and what they answer with."""

from collections.abc import Iterable

from penstock.domain.jobs.stored_response import ResponseStatus
from penstock.gateway.app.openapi_parts import Json, in_path, operation, page_of, parameter, ref
from penstock.gateway.app.queries import known_at
from penstock.gateway.deferred import responses

_RESPONSE: Json = {
    "type": "object",
    "required": ["id", "object", "status", "output"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "response"},
        "status": {"enum": [*ResponseStatus]},
        "output": {"type": "array", "items": {"type": "object"}},
        "background": {"type": "boolean"},
        "previous_response_id": {"type": ["string", "null"]},
        "error": {"type": ["object", "null"]},
    },
}
_ITEM: Json = {
    "type": "object",
    "required": ["id", "type"],
    "properties": {"id": {"type": "string"}, "type": {"type": "string"}},
}
_SCHEMAS: dict[str, Json] = {
    "stream": {"enum": ["true", "false"]},
    "starting_after": {"type": "integer", "minimum": 0},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    "order": {"enum": ["asc", "desc"]},
}
_ITEMS = f"{responses.ONE}/input_items"


def paths() -> Json:
    return {
        responses.ONE: {
            "get": _of_one("Show a stored response, or follow the events of a background one.", "StoredResponse"),
            "delete": _of_one("Delete a stored response and its bytes.", "Deleted", queries=False),
        },
        f"{responses.ONE}/cancel": {
            "post": _of_one("Cancel a background response.", "StoredResponse", queries=False),
        },
        _ITEMS: {
            "get": {
                **operation("List what a response answers, newest first.", page_of("InputItem"), more={404}),
                "parameters": [*in_path("response"), *_asked(_ITEMS)],
            }
        },
    }


def _of_one(summary: str, schema: str, *, queries: bool = True) -> Json:
    asked = _asked(responses.ONE) if queries else ()
    return {**operation(summary, ref(schema), more={404}), "parameters": [*in_path("response"), *asked]}


def _asked(path: str) -> Iterable[Json]:
    names = sorted(known_at(path.replace("{response}", "resp_1"), is_anthropics=False))
    return [parameter(name, _SCHEMAS.get(name, {"type": "string"}), "query") for name in names]


def schemas() -> Json:
    return {"StoredResponse": _RESPONSE, "InputItem": _ITEM}
