"""Condition blocks of policy statements, as AWS documents them: operators, sets, missing keys.

Every operator that our documents or AWS's managed ones use is here; another one is an error, never a guess.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

Context = Mapping[str, tuple[str, ...]]
"""The request's keys, in lower case, each with one value or more."""


class UnknownOperatorError(ValueError):
    """A condition operator that this evaluator does not know."""


@cache
def _pattern(text: str, ignore_case: bool) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    body = "".join(parts.get(letter, re.escape(letter)) for letter in text)
    return re.compile(body, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def like(value: str, pattern: str, *, ignore_case: bool = False) -> bool:
    """Whether a value fits a pattern of `*` and `?`."""
    return _pattern(pattern, ignore_case).fullmatch(value) is not None


def _arn_like(value: str, pattern: str) -> bool:
    """Each of an ARN's six parts is matched by itself."""
    parts, wanted = value.split(":", 5), pattern.split(":", 5)
    return len(parts) == len(wanted) and all(like(part, want) for part, want in zip(parts, wanted, strict=True))


POSITIVE: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() == wanted.lower(),
    "StringLike": like,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
    "NumericEquals": lambda value, wanted: float(value) == float(wanted),
    "NumericLessThan": lambda value, wanted: float(value) < float(wanted),
    "NumericLessThanEquals": lambda value, wanted: float(value) <= float(wanted),
    "NumericGreaterThan": lambda value, wanted: float(value) > float(wanted),
}
NEGATED = {"StringNotEquals": "StringEquals", "StringNotLike": "StringLike", "ArnNotEquals": "ArnLike"}
NEGATED |= {"ArnNotLike": "ArnLike"}


def holds(block: Mapping[str, Mapping[str, object]], context: Context) -> bool:
    """Whether all operators and all keys hold; an empty block always does."""
    return all(_key_holds(name, key, wanted, context) for name, keys in block.items() for key, wanted in keys.items())


def _key_holds(name: str, key: str, wanted: object, context: Context) -> bool:
    given = context.get(key.lower())
    values = tuple(str(item) for item in wanted) if isinstance(wanted, (list, tuple)) else (_text(wanted),)
    if name == "Null":
        return (given is None) == (values[0].lower() == "true")
    quantifier, _, operator = name.rpartition(":")
    optional = operator.endswith("IfExists")
    operator = operator.removesuffix("IfExists")
    if given is None:
        return optional or quantifier == "ForAllValues" or (operator in NEGATED and not quantifier)
    matched = [_matches(operator, value, values) for value in given]
    return all(matched) if quantifier == "ForAllValues" else any(matched)


def _matches(operator: str, value: str, wanted: tuple[str, ...]) -> bool:
    """Several wanted values are alternatives; for a negated operator none of them may match."""
    test = POSITIVE.get(NEGATED.get(operator, operator))
    if test is None:
        raise UnknownOperatorError(operator)
    found = any(test(value, one) for one in wanted)
    return not found if operator in NEGATED else found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
