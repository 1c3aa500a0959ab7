"""Bounds on operators' input: each text, list and number has a bound, and texts contain only printable characters.

Bounds apply by field name, so a new field has the narrowest ones until it gets its own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.formats.visible import UNSHOWN

NAME_CHARS = 200
"""Longer than every id and name: a version's has 76."""
LONG_CHARS: Mapping[str, int] = {
    "reason": 1000,
    "origin": 1000,
    "path": 1000,
    "notes": 1000,
    "expect": 8 << 10,
    "near": 8 << 10,
    "far": 8 << 10,
    "chat_template": 256 << 10,  # the longest of published models have 30 KiB
    "pack": 1 << 20,  # as much as a pack may have
    "user": 4096,  # kept as a digest; callers may have given any text
    "prompt": 1 << 20,  # a golden image, as a data: URL
}
ITEMS = 1000
"""The most overrides and owners that are allowed."""
MANY_ITEMS: Mapping[str, int] = {"files": 10_000}
NUMBER = 2**53
"""The limits store counts in doubles, exact up to this value; no file has more bytes."""
WRITTEN = frozenset({"chat_template", "prompt", "expect", "near", "far", "reason", "special_tokens", "pack", "user"})
"""Fields of texts that may have several lines, or any characters."""


class OutOfBounds(ValueError):
    """A value is out of bounds."""

    def __init__(self, path: str, says: str) -> None:
        super().__init__(says)
        self.path = path


def check(value: object, path: str = "", field: str = "") -> None:
    """Raise ``OutOfBounds`` for the first value beyond its field's bound."""
    if isinstance(value, dict | list):
        if len(value) > (most := MANY_ITEMS.get(field, ITEMS)):
            raise OutOfBounds(path, f"at most {most} items are taken here")
        for one, inside, name in _inside(value, path, field):
            check(one, inside, name)
    elif isinstance(value, str):
        check_text(value, path, field)
    elif isinstance(value, int | float) and not -NUMBER <= value <= NUMBER:
        raise OutOfBounds(path, f"a number is at most {NUMBER}")


def _inside(value: dict[str, object] | list[object], path: str, field: str) -> Iterator[tuple[object, str, str]]:
    if isinstance(value, dict):
        yield from ((one, f"{path}.{name}" if path else name, name) for name, one in value.items())
    else:
        yield from ((one, f"{path}[{number}]", field) for number, one in enumerate(value))


def check_text(value: str, path: str, field: str = "") -> None:
    if len(value) > (most := LONG_CHARS.get(field, NAME_CHARS)):
        raise OutOfBounds(path, f"a text has at most {most} characters here")
    if field not in WRITTEN and UNSHOWN.search(value):
        raise OutOfBounds(path, "control characters, and marks that turn or hide text, are not allowed here")


def write_into(document: dict[str, Any]) -> None:
    shapes = document["components"]["schemas"]
    for operation in (one for methods in document["paths"].values() for one in methods.values()):
        for parameter in operation.get("parameters", ()):
            _write(parameter["schema"], "")
        sent = operation.get("requestBody", {})
        whole = [content["schema"] for content in sent.get("content", {}).values()]
        for shape in (*whole, *(shapes[name] for name in _named(sent, shapes))):
            for field, inside in shape.get("properties", {}).items():
                _write(inside, field)


def _write(shape: dict[str, Any], field: str) -> None:
    if shape.get("type") == "string" and not shape.keys() & {"enum", "const"}:
        shape["maxLength"] = LONG_CHARS.get(field, NAME_CHARS)
    if shape.get("type") == "array":
        shape.setdefault("maxItems", MANY_ITEMS.get(field, ITEMS))
    inside = [shape.get("items"), *shape.get("prefixItems", ()), *shape.get("anyOf", ())]
    for one in (one for one in inside if one):
        _write(one, field)


def _named(value: object, shapes: Mapping[str, Any], seen: set[str] | None = None) -> Iterator[str]:
    """Yield the names of the schemas that a schema refers to, directly or through others."""
    seen = set() if seen is None else seen
    if isinstance(value, list):
        for one in value:
            yield from _named(one, shapes, seen)
    if not isinstance(value, dict):
        return
    name = str(value.get("$ref", "")).rpartition("/")[2]
    if name and name not in seen:
        seen.add(name)
        yield name
        yield from _named(shapes[name], shapes, seen)
    for one in value.values():
        yield from _named(one, shapes, seen)
