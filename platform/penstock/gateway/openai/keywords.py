"""JSON Schema keywords that the engine's grammar holds; any other would change nothing, in silence. Pure.

xgrammar, which compiles all grammars, reads one form of each schema: a reference, fixed values, alternatives or a type.

Trade-off: what the grammar holds more strictly than the schema says passes here: patterns match whole texts, objects
have only the described properties.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.gateway.openai import fields

MAX_PATH_CHARS = 200
"""Of a path in an error, which also holds the caller's own names."""

NOTES = frozenset(
    """
    $comment $id $schema contentEncoding contentMediaType default deprecated description discriminator example examples
    externalDocs readOnly title writeOnly xml
    """.split()
)
"""Said for readers: they bind no value."""
DEFINITIONS = frozenset({"$defs", "definitions"})
FORMS = ("$ref", "const", "enum", "oneOf", "anyOf", "allOf")
"""The first one that a schema has is read, and its other keywords are skipped."""
_RANGE = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
OF_TYPE: Mapping[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "integer": _RANGE,
    "number": _RANGE,
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "unevaluatedItems"}),
    "object": frozenset(
        """
        properties required additionalProperties unevaluatedProperties minProperties maxProperties patternProperties
        propertyNames
        """.split()
    ),
    "boolean": frozenset(),
    "null": frozenset(),
}
FORMATS = frozenset(
    """
    date date-time duration email hostname ipv4 ipv6 json-pointer relative-json-pointer time uri uri-reference
    uri-template uuid
    """.split()
)
INFERRED = {
    "properties": "object",
    "additionalProperties": "object",
    "unevaluatedProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
"""Keywords that are held without a type beside them."""
APART: Mapping[str, frozenset[str]] = {
    "pattern": frozenset({"format", "minLength", "maxLength"}),
    "format": frozenset({"minLength", "maxLength"}),
    "propertyNames": frozenset({"properties", "patternProperties", "required", "additionalProperties"})
    | {"unevaluatedProperties"},
    "patternProperties": frozenset({"properties", "required"}),
}
"""Keywords that are not held beside each other."""
_NEEDS = {
    "minItems": frozenset({"items", "prefixItems", "unevaluatedItems"}),
    "maxItems": frozenset({"items", "prefixItems", "unevaluatedItems"}),
    "minProperties": OF_TYPE["object"] - {"required", "minProperties", "maxProperties"},
    "maxProperties": OF_TYPE["object"] - {"required", "minProperties", "maxProperties"},
}
"""Keywords that are held only beside one of these: otherwise the grammar allows no item or property at all."""
_ENDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})

_UNREAD = re.compile(
    r"""
    (?P<escaped>\\(?:[^bBkpPAZzGQERXNhHVe1-9]|\Z))
    | (?P<group>\((?!\?)|\(\?:|\(\?<[A-Za-z_]\w*>)
    | (?P<ends>\$(?=\Z|[)|$]))
    | (?P<starts>(?:\A|(?<=[(|^])|(?<=\(\?:))\^)
    | (?P<class>\[\^?\]?(?:\\[^pP]|[^\]\\\[]|\[(?!:))*+\])
    | (?P<plain>[^\\()\[\]^$])
    | (?P<closed>\))
    """,
    re.VERBOSE | re.DOTALL,
)
"""Reads what a pattern's grammar holds: no look-around, back reference, boundary, class by name or flag."""

_LOOKS = ("(?=", "(?!")
"""The compiler skips these in a schema, and refuses all others."""

Schema = Mapping[str, object]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """``is_fatal``: the compiler refuses the whole schema."""

    path: Path
    says: str
    is_fatal: bool = False


def shown(at: str, path: Path) -> str:
    steps = map(fields.shown, path)
    whole = ".".join((at, *steps)) if at else ".".join(steps)
    return whole if len(whole) <= MAX_PATH_CHARS else f"{whole[:MAX_PATH_CHARS]}…"


def pattern_fault(pattern: str) -> str:
    """Part of a regular expression that the grammar can't enforce; empty if none."""
    at = 0
    while at < len(pattern):
        found = _UNREAD.match(pattern, at)
        if found is None:
            return pattern[at : at + 3]
        at = found.end()
    return ""


def faults(root: Schema) -> Iterator[Fault]:
    yield from _node(root, root, ())


def _node(schema: object, root: Schema, at: Path) -> Iterator[Fault]:
    if schema is False:
        yield Fault(at, "allows no value", is_fatal=True)
    if not isinstance(schema, Mapping):
        return
    form = next((name for name in FORMS if name in schema), None)
    if form is None:
        yield from _typed(schema, root, at)
    else:
        yield from _formed(form, schema, root, at)
    for name in DEFINITIONS & schema.keys():
        yield from _named(schema[name], root, (*at, name))


def _named(schemas: object, root: Schema, at: Path) -> Iterator[Fault]:
    for name, one in schemas.items() if isinstance(schemas, Mapping) else ():
        yield from _node(one, root, (*at, name))


# -- forms -----------------------------------------------------------------------------


def _formed(form: str, schema: Schema, root: Schema, at: Path) -> Iterator[Fault]:
    for name in schema.keys() - NOTES - DEFINITIONS - {form}:
        if name != "type" or form not in ("const", "enum"):
            yield Fault((*at, name), f"has no effect beside {form}")
    value = schema[form]
    if form == "$ref":
        if target(value, root) is None:
            yield Fault((*at, form), "must point to a definition in the same schema", is_fatal=True)
    elif form in ("const", "enum"):
        values = [value] if form == "const" else value if isinstance(value, list) else []
        if not values:
            yield Fault((*at, form), "must have a value", is_fatal=True)
        if "type" in schema and not all(_is_of(one, schema["type"]) for one in values):
            yield Fault((*at, form), "must hold values of the type beside it")
    else:
        yield from _alternatives(form, value, root, (*at, form))


def _alternatives(form: str, schemas: object, root: Schema, at: Path) -> Iterator[Fault]:
    if not isinstance(schemas, list) or not schemas:
        yield Fault(at, "must have a schema", is_fatal=True)
        return
    if form == "allOf" and len(schemas) > 1:
        yield Fault(at, "is supported with a single schema only: merge the schemas into one")
    if form == "oneOf" and not _are_apart(schemas, root):
        yield Fault(at, "is enforced as anyOf, but several of these can be valid at once: send anyOf")
    for number, one in enumerate(schemas):
        yield from _node(one, root, (*at, str(number)))


def _are_apart(schemas: list[object], root: Schema) -> bool:
    """No value is valid to both: by types, values, or a property with fixed ones."""
    whole = [_resolved(one, root) for one in schemas]
    if any(one is None for one in whole):
        return False
    known = [one for one in whole if one is not None]
    return (
        _differ([_types(one) for one in known])
        or _differ([_values(one) for one in known])
        or any(_differ([_values(_property(one, name, root)) for one in known]) for name in _all_require(known))
    )


def _differ(sets: list[frozenset[str]]) -> bool:
    return all(sets) and sum(map(len, sets)) == len(frozenset().union(*sets))


def _types(schema: Schema) -> frozenset[str]:
    named = schema.get("type")
    names = frozenset([named] if isinstance(named, str) else named if isinstance(named, list) else ())
    return names | {"number"} if "integer" in names else names


def _values(schema: Schema) -> frozenset[str]:
    given = [schema["const"]] if "const" in schema else schema.get("enum")
    return frozenset(map(repr, given)) if isinstance(given, list) else frozenset()


def _all_require(schemas: list[Schema]) -> frozenset[str]:
    named = [one.get("required") for one in schemas]
    return frozenset.intersection(
        *(frozenset(map(str, one)) if isinstance(one, list) else frozenset() for one in named)
    )


def _property(schema: Schema, name: str, root: Schema) -> Schema:
    properties = schema.get("properties")
    return (_resolved(properties.get(name), root) if isinstance(properties, Mapping) else None) or {}


def _resolved(schema: object, root: Schema) -> Schema | None:
    if isinstance(schema, Mapping) and "$ref" in schema:
        return target(schema["$ref"], root)
    return schema if isinstance(schema, Mapping) else None


def target(reference: object, root: Schema) -> dict[str, object] | None:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: object = root
    for step in reference[1:].split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


# -- types -----------------------------------------------------------------------------


def _typed(schema: Schema, root: Schema, at: Path) -> Iterator[Fault]:
    names = schema.get("type")
    types = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    if "type" in schema and (not types or any(one not in OF_TYPE for one in types)):
        yield Fault((*at, "type"), f"must be one of {', '.join(OF_TYPE)}", is_fatal=True)
        return
    types = types or [INFERRED[name] for name in INFERRED if name in schema]
    known = frozenset[str]().union(*(OF_TYPE[one] for one in types))
    for name in schema.keys() - NOTES - DEFINITIONS - {"type"}:
        if name not in known:
            every = any(name in held for held in OF_TYPE.values())
            yield Fault(
                (*at, name), "needs its type beside it" if every else "can't be enforced by the engine's grammar"
            )
        else:
            yield from _held(name, schema[name], schema, at)
    yield from _inside(schema, root, at)
    for low, high in _ENDS:
        least, most = schema.get(low), schema.get(high)
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            yield Fault((*at, low), f"must not be above {high}", is_fatal=True)


def _held(name: str, value: object, schema: Schema, at: Path) -> Iterator[Fault]:
    """Reasons against a keyword's value, alone or beside its neighbours."""
    here = (*at, name)
    for other in APART.get(name, frozenset()) & schema.keys():
        yield Fault(here, f"can't be enforced beside {other}")
    if name in _NEEDS and not _NEEDS[name] & schema.keys():
        yield Fault(here, f"needs one of {', '.join(sorted(_NEEDS[name]))} beside it", is_fatal=True)
    if name in _COUNTS and (type(value) is not int or value < 0):
        yield Fault(here, "must be a whole number from 0", is_fatal=True)
    if name in _RANGE and not _is_bound(value, schema.get("type")):
        yield Fault(here, "must be a number of the schema's type", is_fatal=True)
    if name == "format" and value not in FORMATS:
        yield Fault(here, f"is supported only as one of {', '.join(sorted(FORMATS))}")
    if name == "pattern":
        yield from _pattern(value, here)
    if name == "required":
        yield from _required(value, schema.get("properties"), here)


def _pattern(value: object, at: Path) -> Iterator[Fault]:
    part = pattern_fault(value) if isinstance(value, str) else "it"
    if part:
        is_fatal = not part.startswith(_LOOKS)
        yield Fault(at, f"has a part that the engine's grammar can't enforce: {part}", is_fatal=is_fatal)


def _required(value: object, properties: object, at: Path) -> Iterator[Fault]:
    described = properties if isinstance(properties, Mapping) else {}
    if not isinstance(value, list) or any(not isinstance(one, str) or one not in described for one in value):
        yield Fault(at, "must name properties that are described beside it")


def _inside(schema: Schema, root: Schema, at: Path) -> Iterator[Fault]:
    yield from _named(schema.get("properties"), root, (*at, "properties"))
    patterns = schema.get("patternProperties")
    if isinstance(patterns, Mapping):
        here = (*at, "patternProperties")
        if len(patterns) > 1:
            yield Fault(here, "is held with one pattern")
        for pattern in patterns:
            yield from _pattern(pattern, (*here, pattern))
        yield from _named(patterns, root, here)
    if "items" in schema and not isinstance(schema["items"], Mapping | bool):
        yield Fault((*at, "items"), "must be one schema; for positions use prefixItems", is_fatal=True)
    for name in ("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames"):
        if isinstance(schema.get(name), Mapping):
            yield from _node(schema[name], root, (*at, name))
    listed = schema.get("prefixItems")
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        yield from _node(one, root, (*at, "prefixItems", str(number)))


def _is_bound(value: object, kind: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind != "integer" or float(value).is_integer()


def _is_of(value: object, named: object) -> bool:
    if isinstance(named, list):
        return any(_is_of(value, one) for one in named)
    if isinstance(value, bool) or value is None:
        return named == ("null" if value is None else "boolean")
    if isinstance(value, float) and not value.is_integer():
        return named == "number"
    kinds: dict[type, tuple[str, ...]] = {
        str: ("string",),
        int: ("integer", "number"),
        float: ("integer", "number"),
        list: ("array",),
        dict: ("object",),
    }
    return named in kinds.get(type(value), ())
