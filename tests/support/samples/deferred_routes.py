"""Routes of deferred work that take an object's id, by the OpenAPI document: in the address, as a cursor, in a body.

A test that walks them fails at a new kind of object until it has its line here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.gateway.app.openapi import document

ROOM = re.compile(r"/v1/(jobs|files|batches|responses|webhooks)\b")
NAMED = re.compile(r"\{(\w+)\}")
NEVER: Mapping[str, str] = {
    kind: prefix + "f" * 24
    for kind, prefix in {
        "job": "job_",
        "file": "file-",
        "batch": "batch_",
        "response": "resp_",
        "webhook": "we_",
        "delivery": "whd_",
    }.items()
}
"""Ids that no object has, by the name of an address's parameter."""
LISTED = {"jobs": "job", "files": "file", "batches": "batch", "webhooks": "webhook", "deliveries": "delivery"}
"""The kind of objects of a list, by the last part of its address."""
DOCUMENT: Any = document()
ROUTES = [
    (method.upper(), path) for path, methods in DOCUMENT["paths"].items() if ROOM.match(path) for method in methods
]
OF_OBJECTS = [(method, path) for method, path in ROUTES if NAMED.search(path)]
LISTS = [path for method, path in ROUTES if method == "GET" and not NAMED.search(path)]
PAGES = [
    path
    for method, path in ROUTES
    if method == "GET"
    and "'name': 'after'" in str(DOCUMENT["paths"][path]["get"].get("parameters", ""))
    and not path.endswith("/input_items")  # numbers of a response's own items
]


def _fields_of(path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a body that hold an object's id, and the kind of object."""
    content = DOCUMENT["paths"][path]["post"].get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for field in schema.get("properties", {}):
        if found := re.fullmatch(rf"(?:\w+_)?({'|'.join(NEVER)})(?:_id)?", field):
            yield field, found[1]


IN_BODIES = [(path, *found) for method, path in ROUTES if method == "POST" for found in _fields_of(path)]


def at(path: str, objects: Mapping[str, str]) -> str:
    """Return an address with these ids."""
    return NAMED.sub(lambda name: objects[name[1]], path)


def own_of(path: str) -> str:
    """Return the address of an object, by that of its acts and parts."""
    return path[: path.index("}") + 1]
