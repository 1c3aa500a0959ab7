"""The shape of a regex: how long its matches are, and of which characters. Pure.

Only what a linear engine takes and what can be bounded is allowed: ASCII characters and classes, bounded repetition,
alternatives, word boundaries. Trade-off: a negated class or ``.`` has to be written as the characters that are meant.
"""

import importlib
import re
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Any

_parser: Any = importlib.import_module("re._parser")
_UNBOUNDED = 1 << 20
"""Characters, more than any rule may match."""
_CATEGORIES = {
    "CATEGORY_DIGIT": frozenset(digits),
    "CATEGORY_WORD": frozenset(ascii_letters + digits + "_"),
    "CATEGORY_SPACE": frozenset(" \t\n\r\f\v"),
}
_ASCII = 128
_NEGATED = "has a negated class: write the characters that are meant"


@dataclass(frozen=True, slots=True)
class Shape:
    """``least`` and ``most`` characters of a match, all of them from ``alphabet``."""

    least: int
    most: int
    alphabet: frozenset[str]

    def then(self, other: "Shape") -> "Shape":
        return Shape(self.least + other.least, self.most + other.most, self.alphabet | other.alphabet)


_EMPTY = Shape(0, 0, frozenset())


def of(regex: str) -> Shape:
    """Return the shape, or raise ``ValueError`` with the remedy."""
    try:
        parsed = _parser.parse(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    flags = parsed.state.flags & ~re.UNICODE
    if flags & ~re.IGNORECASE:
        raise ValueError("may have no flag but (?i)")
    shape = _sequence(parsed)
    if not flags:
        return shape
    both = frozenset(form for one in shape.alphabet for form in (one.lower(), one.upper()))
    return Shape(shape.least, shape.most, both)


def _sequence(parsed: Any) -> Shape:  # noqa: ANN401 - re's own tree has no types
    shape = _EMPTY
    for op, argument in parsed:
        shape = shape.then(_one(str(op), argument))
    return shape


def _one(op: str, argument: Any) -> Shape:  # noqa: ANN401
    match op:
        case "LITERAL":
            return _characters(frozenset(chr(argument)))
        case "IN":
            return _characters(frozenset().union(*(_member(str(kind), value) for kind, value in argument)))
        case "AT" if str(argument) == "AT_BOUNDARY":
            return _EMPTY
        case "BRANCH":
            return _either([_sequence(branch) for branch in argument[1]])
        case "SUBPATTERN" if not argument[1] and not argument[2]:
            return _sequence(argument[3])
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = argument
            if most > _UNBOUNDED:
                raise ValueError("repeats without a bound: write {1,64} for +")
            shape = _sequence(inner)
            return Shape(shape.least * int(least), shape.most * int(most), shape.alphabet)
    raise ValueError(
        _NEGATED
        if op == "NOT_LITERAL"
        else f"has a part that can't be bounded or judged in linear time ({op.lower()}): "
        "use characters, classes, bounded repetition, alternatives and \\b"
    )


def _member(kind: str, value: Any) -> frozenset[str]:  # noqa: ANN401
    match kind:
        case "LITERAL":
            return frozenset(chr(value))
        case "RANGE":
            if value[1] >= _ASCII:
                raise ValueError("has a class outside ASCII: write it as phrases")
            return frozenset(map(chr, range(value[0], value[1] + 1)))
        case "CATEGORY" if str(value) in _CATEGORIES:
            return _CATEGORIES[str(value)]
    raise ValueError(_NEGATED)


def _characters(allowed: frozenset[str]) -> Shape:
    if not all(map(str.isascii, allowed)):
        raise ValueError("has a character outside ASCII: write it as a phrase")
    return Shape(1, 1, allowed)


def _either(branches: list[Shape]) -> Shape:
    return Shape(
        min(branch.least for branch in branches),
        max(branch.most for branch in branches),
        frozenset().union(*(branch.alphabet for branch in branches)),
    )
