"""From JSON Schemas to the shape of a request: what each field may hold, over all that document it. Pure.

A shape accepts whatever one of its sources accepts. Objects that say what they are by ``type`` or ``role`` stay apart,
so that each has its own fields.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

KEYS = ("type", "role")
ANY = "*"
"""An object that does not say what it is."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

Schema = Mapping[str, object]


@dataclass(slots=True)
class Shape:
    """``values`` is None if any text is taken; ``is_open`` objects hold names of the caller's own.

    ``most`` is how many items the strictest source takes; 0 if none says.
    """

    types: set[str] = field(default_factory=set)
    values: set[object] | None = field(default_factory=set)
    bounds: dict[str, float] | None = None
    fields: dict[str, "Shape"] = field(default_factory=dict)
    required: set[str] | None = None
    items: "Shape | None" = None
    kinds: dict[str, "Shape"] = field(default_factory=dict)
    key: str = ""
    most: int = 0
    is_open: bool = False


def merged(schemas: Iterable[Schema]) -> Shape:
    whole = Shape()
    for one in schemas:
        definitions = one.get("$defs")
        _Reader(definitions if isinstance(definitions, dict) else {}).add(whole, one, ())
    return whole


class _Reader:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def add(self, to: Shape, schema: Schema, inside: tuple[str, ...]) -> None:
        objects: list[tuple[Schema, tuple[str, ...]]] = []
        for one, path in self._alternatives(schema, inside):
            if "properties" in one:
                objects.append((one, path))
            else:
                self._plain(to, one, path)
        if objects:
            to.types.add("object")
            self._objects(to, objects)

    def _alternatives(self, schema: Schema, inside: tuple[str, ...]) -> Iterable[tuple[Schema, tuple[str, ...]]]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in inside:
                yield {"type": "object"}, inside  # it holds itself: not walked again
            else:
                yield from self._alternatives(self._definitions[reference], (*inside, reference))
            return
        for name in ("anyOf", "oneOf", "allOf"):
            listed = schema.get(name)
            if isinstance(listed, list):
                for one in listed:
                    yield from self._alternatives(one, inside)
                return
        yield schema, inside

    def _plain(self, to: Shape, schema: Schema, inside: tuple[str, ...]) -> None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        kind = schema.get("type")
        if isinstance(values, list):
            to.types |= {_type_of(one) for one in values}
            if to.values is not None:
                to.values |= {one for one in values if one is not None}
            return
        types = {kind} if isinstance(kind, str) else {str(one) for one in kind} if isinstance(kind, list) else set()
        to.types |= types or {"any"}
        if not types or "string" in types:
            to.values = None
        if types & {"integer", "number"}:
            _bound(to, {name: one for name in _BOUNDS if isinstance(one := schema.get(name), int | float)})
        if "array" in types:
            most = schema.get("maxItems")
            to.most = most if isinstance(most, int) and most < (to.most or most + 1) else to.most
            self._items(to, schema, inside)
        if not types or "object" in types:
            to.is_open = True

    def _items(self, to: Shape, schema: Schema, inside: tuple[str, ...]) -> None:
        to.items = to.items or Shape()
        items = schema.get("items")
        self.add(to.items, items if isinstance(items, dict) else {}, inside)

    def _objects(self, to: Shape, objects: list[tuple[Schema, tuple[str, ...]]]) -> None:
        key = to.key or _key(one for one, _ in objects)
        if not key:
            for one, path in objects:
                self._object(to, one, path)
            return
        to.key = key
        for one, path in objects:
            for value in _said(one, key):
                self._object(to.kinds.setdefault(value, Shape(types={"object"})), one, path)

    def _object(self, to: Shape, schema: Schema, inside: tuple[str, ...]) -> None:
        properties = schema.get("properties")
        for name, one in properties.items() if isinstance(properties, dict) else ():
            self.add(to.fields.setdefault(name, Shape()), one, inside)
        required = schema.get("required")
        names = {str(one) for one in required} if isinstance(required, list) else set()
        to.required = names if to.required is None else to.required & names


def _bound(to: Shape, bounds: dict[str, float]) -> None:
    """Keep the wider bounds: a source without any has none."""
    if to.bounds is None:
        to.bounds = bounds
        return
    lower, upper = min, max
    to.bounds = {
        name: (lower if "in" in name.lower()[-7:] else upper)(to.bounds[name], bounds[name])
        for name in to.bounds.keys() & bounds.keys()
    }


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    return {str: "string", bool: "boolean", int: "integer", float: "number"}.get(type(value), "string")


def _key(objects: Iterable[Schema]) -> str:
    """Return the name by which most of several objects say what they are; empty without one."""
    found = list(objects)
    for key in KEYS:
        if (
            sum(ANY not in _said(one, key) or len(_said(one, key)) > 1 for one in found) > len(found) / 2
            and len(found) > 1
        ):
            return key
    return ""


def _said(schema: Schema, key: str) -> list[str]:
    """Return the values by which an object says what it is; ``ANY`` among them if it need not."""
    properties = schema.get("properties")
    named = properties.get(key) if isinstance(properties, dict) else None
    if not isinstance(named, dict):
        return [ANY]
    alternatives = named.get("anyOf")
    found: list[str] = []
    for one in alternatives if isinstance(alternatives, list) else [named]:
        listed = one.get("enum", [one["const"]] if "const" in one else [ANY] if one.get("type") != "null" else [])
        found += [str(value) for value in listed]
    required = schema.get("required")
    is_required = isinstance(required, list) and key in required
    return found if is_required or ANY in found else [*found, ANY]


def joined(kind: Shape, others: Shape) -> Shape:
    """Return a kind that may also hold what any kind may hold."""
    fields = {name: _either(kind.fields.get(name), one) for name, one in others.fields.items()}
    required = (kind.required or set()) & (others.required or set())
    return Shape(types={"object"}, fields=kind.fields | fields, required=required)


def _either(one: Shape | None, other: Shape) -> Shape:
    if one is None:
        return other
    values = None if one.values is None or other.values is None else one.values | other.values
    return Shape(
        types=one.types | other.types,
        values=values,
        fields=_all(one.fields, other.fields),
        required=other.required if one.required is None else one.required & (other.required or one.required),
        items=_either(one.items, other.items) if other.items is not None else one.items,
        kinds=_all(one.kinds, other.kinds),
        key=one.key or other.key,
        is_open=one.is_open or other.is_open,
    )


def _all(one: dict[str, Shape], other: dict[str, Shape]) -> dict[str, Shape]:
    return one | {name: _either(one.get(name), shape) for name, shape in other.items()}
