"""Finds grammars with a rule that no text can complete: ``root ::= root``, or a class without characters.

xgrammar accepts them, and generation then stops without a permitted token. The check reads xgrammar's serialised form
(0.2, v16): expressions as kind, length and operands; kind 4 refers to a rule.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any

FORM = "v16"
CHECKED = ("from_ebnf", "from_json_schema", "from_regex", "from_lark")
_installed: list[str] = []
_CLASS, _RULE, _SEQUENCE, _CHOICES, _REPEAT = 1, 4, 5, 6, 8
_LAST_CHARACTER = 0x10_FFFF
_SURROGATES = (0xD800, 0xDFFF)


class DeadEnd(ValueError):
    """A rule of a grammar has an alternative that no text can complete."""


@dataclass(frozen=True, slots=True)
class Expression:
    kind: int
    operands: Sequence[int]


def install() -> None:
    if _installed:
        return
    from xgrammar import Grammar as Parsed

    _installed.append("xgrammar")
    for name in CHECKED:
        setattr(Parsed, name, staticmethod(checking(inspect.getattr_static(Parsed, name).__func__)))


def checking(parse: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(parse)
    def parsed(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        grammar = parse(*args, **named)
        check(grammar.serialize_json())
        return grammar

    return parsed


def check(serialised: str) -> None:
    """Raise ``DeadEnd`` if a rule that the root reaches has an alternative that no text completes."""
    found = json.loads(serialised)
    if found["__VERSION__"] != FORM:
        raise RuntimeError(f"xgrammar writes grammars in form {found['__VERSION__']}; {FORM} is known")
    Grammar(found).check()


class Grammar:
    def __init__(self, found: Mapping[str, Any]) -> None:
        data, starts = found["grammar_expr_data"], found["grammar_expr_indptr"]
        ends = pairwise([*starts, len(data)])
        self._expressions = [Expression(data[at], data[at + 2 : end]) for at, end in ends]
        self._names = [str(rule[0]) for rule in found["rules"]]
        self._bodies = [int(rule[1]) for rule in found["rules"]]
        self._root = int(found["root_rule_id"])
        self._ending: set[int] = set()
        self._find_ending()

    def check(self) -> None:
        for rule in self._reached():
            if not all(map(self._ends, self._alternatives(self._bodies[rule]))):
                raise DeadEnd(
                    f"the grammar's rule {self._names[rule]!r} never ends: no text completes one of its alternatives"
                )

    def _find_ending(self) -> None:
        """A rule is looked at again only after a rule that it refers to was found."""
        users: dict[int, list[int]] = {}
        for rule, body in enumerate(self._bodies):
            for used in self._rules_in(body):
                users.setdefault(used, []).append(rule)
        left = list(range(len(self._bodies)))
        while left:
            rule = left.pop()
            if rule not in self._ending and self._ends(self._bodies[rule]):
                self._ending.add(rule)
                left += users.get(rule, ())

    def _ends(self, at: int) -> bool:
        one = self._expressions[at]
        if one.kind in (_RULE, _REPEAT):
            return one.operands[0] in self._ending or (one.kind == _REPEAT and one.operands[1] == 0)
        if one.kind == _SEQUENCE:
            return all(map(self._ends, one.operands))
        if one.kind == _CHOICES:
            return any(map(self._ends, one.operands))
        if one.kind == _CLASS:
            return _has_characters(one.operands)
        return True

    def _alternatives(self, at: int) -> Sequence[int]:
        one = self._expressions[at]
        return one.operands if one.kind == _CHOICES else (at,)

    def _reached(self) -> Iterator[int]:
        seen, left = {self._root}, [self._root]
        while left:
            rule = left.pop()
            yield rule
            new = set(self._rules_in(self._bodies[rule])) - seen
            seen |= new
            left += new

    def _rules_in(self, at: int) -> Iterator[int]:
        one = self._expressions[at]
        if one.kind in (_RULE, _REPEAT):
            yield one.operands[0]
        elif one.kind in (_SEQUENCE, _CHOICES):
            for part in one.operands:
                yield from self._rules_in(part)


def _has_characters(operands: Sequence[int]) -> bool:
    """Negated or not, then pairs of first and last."""
    is_negated, *bounds = operands
    ranges = sorted([*zip(bounds[::2], bounds[1::2], strict=True), *([_SURROGATES] if is_negated else [])])
    if not is_negated:
        return any(not (_SURROGATES[0] <= first and last <= _SURROGATES[1]) for first, last in ranges)
    free = 0
    for first, last in ranges:
        if first > free:
            return True
        free = max(free, last + 1)
    return free <= _LAST_CHARACTER
