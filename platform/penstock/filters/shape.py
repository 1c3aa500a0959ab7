"""The shape of a regex: how long its matches are, and of which characters. Pure.

Only what a linear engine takes and what can be bounded is allowed: ASCII characters and classes, bounded repetition,
alternatives, word boundaries. Engines read some spellings otherwise (``[[:digit:]]``, ``{,3}``), so they get what was
read in a spelling of its own. Trade-off: a negated class or ``.`` has to be written as the characters that are meant.
"""

import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
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
_CLASS = re.compile(r"\\.|\[(\^?\]?(?:\\.|[^\]\\])*)", re.DOTALL)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_SET = re.compile(r"\[|--|&&|~~|\|\|")


@dataclass(frozen=True, slots=True)
class Shape:
    """``least`` and ``most`` characters of a match, all of them from ``alphabet``, the first from ``first``."""

    least: int
    most: int
    alphabet: frozenset[str]
    first: frozenset[str]
    regex: str
    """For any engine: classes by their codes, bounded repetition, alternatives and word boundaries."""

    def then(self, other: "Shape") -> "Shape":
        first = self.first if self.least else self.first | other.first
        least, most, alphabet = self.least + other.least, self.most + other.most, self.alphabet | other.alphabet
        return Shape(least, most, alphabet, first, self.regex + other.regex)


_EMPTY = Shape(0, 0, frozenset(), frozenset(), "")


@lru_cache(maxsize=1_024)
def of(regex: str) -> Shape:
    """Return the shape, or raise ``ValueError`` with the remedy."""
    if any(_SET.search(_ESCAPE.sub("x", found[1] or "")) for found in _CLASS.finditer(regex)):
        raise ValueError("has a class in a class, or a set of two: write the characters that are meant, \\[ for [")
    try:
        parsed = _parser.parse(regex)
        flags = parsed.state.flags & ~re.UNICODE
        if not flags & ~re.IGNORECASE:
            return _sequence(parsed, any_case=bool(flags))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from error
    raise ValueError("may have no flag but (?i)")


def _sequence(parsed: Any, *, any_case: bool) -> Shape:  # noqa: ANN401 - re's own tree has no types
    shape = _EMPTY
    for op, argument in parsed:
        shape = shape.then(_one(str(op), argument, any_case=any_case))
    return shape


def _one(op: str, argument: Any, *, any_case: bool) -> Shape:  # noqa: ANN401
    match op:
        case "LITERAL":
            return _characters(frozenset(chr(argument)), any_case=any_case)
        case "IN":
            members = (_member(str(kind), value) for kind, value in argument)
            return _characters(frozenset().union(*members), any_case=any_case)
        case "AT" if str(argument) == "AT_BOUNDARY":
            return replace(_EMPTY, regex=r"\b")
        case "BRANCH":
            return _either([_sequence(branch, any_case=any_case) for branch in argument[1]])
        case "SUBPATTERN" if not argument[1] and not argument[2]:
            return _either([_sequence(argument[3], any_case=any_case)])
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, inner = argument
            if most > _UNBOUNDED:
                raise ValueError("repeats without a bound: write {1,64} for +")
            shape = _sequence(inner, any_case=any_case)
            regex = f"(?:{shape.regex}){{{int(least)},{int(most)}}}"
            return Shape(shape.least * int(least), shape.most * int(most), shape.alphabet, shape.first, regex)
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


def _characters(allowed: frozenset[str], *, any_case: bool) -> Shape:
    if not all(map(str.isascii, allowed)):
        raise ValueError("has a character outside ASCII: write it as a phrase")
    if any_case:
        allowed = frozenset(form for one in allowed for form in (one.lower(), one.upper()))
    return Shape(1, 1, allowed, allowed, f"[{''.join(_ranges(sorted(map(ord, allowed))))}]")


def _ranges(codes: Iterable[int]) -> Iterator[str]:
    for _, row in groupby(enumerate(codes), lambda one: one[1] - one[0]):
        every = [code for _, code in row]
        yield rf"\x{every[0]:02x}-\x{every[-1]:02x}"


def _either(branches: list[Shape]) -> Shape:
    return Shape(
        min(branch.least for branch in branches),
        max(branch.most for branch in branches),
        frozenset().union(*(branch.alphabet for branch in branches)),
        frozenset().union(*(branch.first for branch in branches)),
        f"(?:{'|'.join(branch.regex for branch in branches)})",
    )
