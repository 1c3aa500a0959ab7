"""What could be wrong in a rule: each threshold, window, comparison, set operation and label matcher, flipped."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Rule = dict[str, Any]
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")')
_WINDOW = re.compile(r"(?<=\[)(\d+)([smhd])|(?<=offset )(\d+)([smhd])")
_NAMED_WINDOW = re.compile(r"(?<=:ratio_rate)\d+[mhd]")
_NUMBER = re.compile(r"(?<![\w.:])\d+(?:\.\d+)?(?![\w.:])")
_COMPARISON = re.compile(r"[<>]=?|==|!=")
_SET = re.compile(r"\b(?:and|or|unless)\b")
_HIDDEN = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"")
"""Where numbers and comparisons are none of the rule's own."""

_OPPOSITE = {">": "<", ">=": "<", "<": ">", "<=": ">", "==": "!=", "!=": "=="}
_OTHER_SET = {"and": "or", "or": "and", "unless": "and"}
_OTHER_MATCH = {"=": "!=", "!=": "=", "=~": "!~", "!~": "=~"}
_NEIGHBOURS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A rule with one fault, and which."""

    fault: str
    rule: Rule


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Yield the rule once for each fault that it could have."""
    expr = str(rule["expr"])
    for fault, changed in _of_expr(expr):
        yield Mutant(fault=fault, rule=rule | {"expr": changed})
    if rule.get("for"):
        for held in _stretched(str(rule["for"])):
            yield Mutant(fault=f"for: {rule['for']} → {held}", rule=rule | {"for": held})


def _of_expr(expr: str) -> Iterator[tuple[str, str]]:
    masked = _HIDDEN.sub(lambda hidden: "_" * len(hidden[0]), expr)
    yield from _flipped(expr, _MATCHER.finditer(expr), lambda m: [f"{m[1]}{_OTHER_MATCH[m[2]]}{m[3]}"])
    yield from _flipped(expr, _WINDOW.finditer(expr), lambda m: _stretched(m[0]))
    yield from _flipped(expr, _NAMED_WINDOW.finditer(expr), lambda m: _next_to(m[0]))
    yield from _flipped(expr, _NUMBER.finditer(masked), lambda m: _numbers(m[0]))
    yield from _flipped(expr, _COMPARISON.finditer(masked), lambda m: [_OPPOSITE[m[0]]])
    yield from _flipped(expr, _SET.finditer(masked), lambda m: [_OTHER_SET[m[0]]])


def _flipped(
    expr: str, found: Iterator[re.Match[str]], others: Callable[[re.Match[str]], list[str]]
) -> Iterator[tuple[str, str]]:
    for match in found:
        for other in others(match):
            yield f"{match[0]} → {other} at {match.start()}", expr[: match.start()] + other + expr[match.end() :]


def _stretched(duration: str) -> list[str]:
    length = int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[duration[-1]]
    return [f"{length // 2}s", f"{length * 2}s"]


def _next_to(window: str) -> list[str]:
    """Return the recorded windows beside this one; the period has none."""
    if window not in _NEIGHBOURS:
        return []
    place = _NEIGHBOURS.index(window)
    return [_NEIGHBOURS[i] for i in (place - 1, place + 1) if 0 <= i < len(_NEIGHBOURS)]


def _numbers(number: str) -> list[str]:
    value = float(number)
    return [f"{value * 0.8:.9g}", f"{value * 1.25:.9g}"] if value else ["1"]
