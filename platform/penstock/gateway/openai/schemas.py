"""Bounds of structured outputs: a grammar compiler's work grows with properties, values and repeats. Pure.

The bounds are OpenAI's published ones. A ``$ref`` that leads back to itself only through references and alternatives
describes no value: engines loop forever, or fail. Trade-off: nested repeats are added, not multiplied, since engines
keep them as counters. Source: https://platform.openai.com/docs/guides/structured-outputs; vLLM 0.32,
``StructuredOutputsParams``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from penstock.domain.errors import InvalidField
from penstock.gateway.openai import keywords
from penstock.gateway.openai.depth import is_too_deep_text
from penstock.gateway.openai.fields import shown

MAX_REPEATS = 2_000
"""Repeats of one pattern or grammar. On two cores xgrammar 0.2 takes 2.5 s for this many, and 17 s for 5,000: it grows
with the square.
"""
MAX_REPEATS_TOTAL = 5_000
"""Repeats of all patterns of a request. Fifty of ``[a-z]{1,100}`` take 8 s."""

_TOKEN = re.compile(
    r"""
    \\[uxpP]\{[^}]{0,40}+\}                 # a character by its number, a class by its name
    | \\.?                                  # escaped
    | \[\^?\]?(?:\\.?|[^\]\\])*+(?:\]|\Z)   # a class
    | \{[ ]*+([0-9]*+)[ ]*+(?:,[ ]*+([0-9]*+)[ ]*+)?\}
    """,
    re.VERBOSE | re.DOTALL,
)
_MAX_DIGITS = 6


def repeats(pattern: str) -> Iterator[int]:
    if "{" not in pattern:
        return
    for match in _TOKEN.finditer(pattern):
        least, most = match.groups()
        if least or most:
            yield max(_number(least), _number(most))


def _number(digits: str | None) -> int:
    if not digits:
        return 0
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS


MAX_PROPERTIES = 5_000
MAX_VALUES = 1_000
"""Values of all ``enum``s together; also of one choice."""
MAX_CHARS = 120_000
"""Characters of names and values together; also of a pattern or a grammar."""
MAX_OPTIONAL = 1_000
"""Optional properties of one object: the compiler's work grows with their square. OpenAI allows none."""

HOLDERS = frozenset({"schema", "json", "parameters", "input_schema"})
_GRAMMARS = frozenset({"regex", "grammar", "pattern"})
_TAGS = "structural_tag"
_WRAPPED = "json_schema"
"""The field that wraps a schema in OpenAI's form, and is a schema itself in a structural tag."""
_NOT_WRAPPED = frozenset({"schema", "name"})
_CHOICES = frozenset({"choice"})
_PROSE = frozenset({"description", "title", "default", "examples", "$comment"})
"""Keywords for human readers, which are no part of the grammar."""
_WORDS = frozenset({"type", "format", "$ref", "$schema", "$id"})
"""Keywords with values of the schema language, which OpenAI does not count."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords with names chosen by the caller below them."""
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_CONTAINERS = (dict, list)
_SEARCHED = (dict, list, str)

Schema = dict[str, object]


@dataclass(slots=True)
class SchemaCounts:
    properties: int = 0
    repeats: int = 0

    def properties_of(self, more: int, at: str) -> None:
        self.properties += more
        if self.properties > MAX_PROPERTIES:
            raise InvalidField(f"schemas may have at most {MAX_PROPERTIES} properties", param=at)

    def pattern(self, text: object, at: str) -> None:
        for times in repeats(text) if isinstance(text, str) else ():
            self.repeats += times
            if times > MAX_REPEATS:
                raise InvalidField(f"a pattern may repeat something at most {MAX_REPEATS} times", param=at)
        if self.repeats > MAX_REPEATS_TOTAL:
            raise InvalidField(f"patterns may repeat at most {MAX_REPEATS_TOTAL} times together", param=at)


def check(given: object, name: str, at: str, counted: SchemaCounts | None = None, *, binds: bool = True) -> bool:
    """Return whether a keyword can't be enforced; if the schemas bind the whole answer, it is refused. ``at`` is the
    path.
    """
    counted = SchemaCounts() if counted is None else counted
    is_loose, waiting = False, [(name, given, at)]
    while waiting:
        holder, value, path = waiting.pop()
        if holder in _GRAMMARS and isinstance(value, str):
            _check_chars(len(value), path)
            counted.pattern(value, path)
            if holder != "grammar":
                _check_pattern(value, path)
        elif holder in _CHOICES and isinstance(value, list):
            _check_choice(value, path)
        elif _holds_schema(holder, value) and (schema := _schema(value, path)) is not None:
            _check_schema(schema, path, counted)
            is_loose |= _is_loose(schema, path, binds=binds)
        else:
            waiting.extend(_inside(holder, value, path))
    return is_loose


def _check_pattern(pattern: str, at: str) -> None:
    if part := keywords.pattern_fault(pattern):
        raise InvalidField(f"{at} has a part that the engine's grammar can't enforce: {part}", param=at)


def _is_loose(schema: Schema, at: str, *, binds: bool) -> bool:
    """Tell whether a schema does not bind and leaves a keyword out; refuses one that can't be compiled."""
    is_loose = False
    for fault in keywords.faults(schema):
        if binds or fault.is_fatal:
            path = keywords.shown(at, fault.path)
            raise InvalidField(f"{path} {fault.says}", param=path)
        is_loose = True
    return is_loose


def _holds_schema(holder: str, value: object) -> bool:
    return holder in HOLDERS or (holder == _WRAPPED and isinstance(value, dict) and not _NOT_WRAPPED & value.keys())


def _inside(holder: str, value: object, at: str) -> Iterable[tuple[str, object, str]]:
    """A structural tag may be JSON in a text."""
    if holder == _TAGS and isinstance(value, str):
        value = _schema(value, at)
    if isinstance(value, dict):
        return [(name, child, f"{at}.{shown(name)}") for name, child in value.items() if type(child) in _SEARCHED]
    if not isinstance(value, list):
        return ()
    return [(holder, child, f"{at}[{number}]") for number, child in enumerate(value) if type(child) in _SEARCHED]


def _schema(value: object, at: str) -> Schema | None:
    if isinstance(value, str):
        if is_too_deep_text(value):
            raise InvalidField("the schema is nested too deep", param=at)
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, ValueError):
            return None
    return value if isinstance(value, dict) else None


def _check_choice(values: list[object], at: str) -> None:
    if len(values) > MAX_VALUES:
        raise InvalidField(f"a choice may have at most {MAX_VALUES} values", param=at)
    _check_chars(sum(len(value) for value in values if isinstance(value, str)), at)


def _check_chars(chars: int, at: str) -> None:
    if chars > MAX_CHARS:
        raise InvalidField(f"names and values may have at most {MAX_CHARS} characters together", param=at)


def _check_schema(schema: Schema, at: str, counted: SchemaCounts) -> None:
    """Count the grammar's parts, then look for circular references."""
    values = chars = 0
    waiting: list[object] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            _check_node(one, at, counted)
            listed = one.get("enum")
            values += len(listed) if isinstance(listed, list) else 0
            waiting.extend(_said(one))
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, str):
            chars += len(one)
    if values > MAX_VALUES:
        raise InvalidField(f"a schema may have at most {MAX_VALUES} enum values", param=at)
    _check_chars(chars, at)
    if _leads_nowhere(schema):
        raise InvalidField("a $ref in the schema refers back to itself", param=at)


def _check_node(node: Schema, at: str, counted: SchemaCounts) -> None:
    counted.pattern(node.get("pattern"), at)
    named = node.get("patternProperties")
    for pattern in named if isinstance(named, dict) else ():
        counted.pattern(pattern, at)
    found = node.get("properties")
    if not isinstance(found, dict):
        return
    counted.properties_of(len(found), at)
    required = node.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    if len(found.keys() - needed) > MAX_OPTIONAL:
        raise InvalidField(f"an object may have at most {MAX_OPTIONAL} optional properties", param=at)


def _said(node: Schema) -> Iterator[object]:
    for name, child in node.items():
        if name in _NAMED and isinstance(child, dict):
            yield list(child)
            yield from child.values()
        elif name not in _PROSE and not (name in _WORDS and isinstance(child, str)):
            yield child


# -- references ------------------------------------------------------------------------


def _leads_nowhere(root: Schema) -> bool:
    done: set[int] = set()
    for start in _referring(root):
        path: set[int] = set()
        waiting: list[tuple[Schema, bool]] = [(start, True)]
        while waiting:
            node, enters = waiting.pop()
            if not enters:
                path.discard(id(node))
                done.add(id(node))
            elif id(node) in path:
                return True
            elif id(node) not in done:
                path.add(id(node))
                waiting.append((node, False))
                waiting.extend((child, True) for child in _same_value(node, root))
    return False


def _referring(root: Schema) -> Iterator[Schema]:
    waiting: list[object] = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "$ref" in one:
                yield one
            waiting.extend(child for child in one.values() if type(child) in _CONTAINERS)
        elif isinstance(one, list):
            waiting.extend(one)


def _same_value(node: Schema, root: Schema) -> Iterator[Schema]:
    if (target := keywords.target(node.get("$ref"), root)) is not None:
        yield target
    for name in _ALTERNATIVES:
        listed = node.get(name)
        if isinstance(listed, list):
            yield from (child for child in listed if isinstance(child, dict))
