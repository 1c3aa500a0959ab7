"""Plain values and how to reach into them without a cast at every step: what graphs, policies and prices read with."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

UNKNOWN = "<not known before deployment>"
"""Stands for a value that only the cloud can give, where a policy runs at preview."""


def dig(value: Json, path: str) -> Json:
    """The value at a dotted path (`rules.0.action`); `None` if the path ends early."""
    for step in path.split("."):
        if isinstance(value, (dict, Mapping)):  # a dict is told at once, an abstract kind by a call
            value = value.get(step)
        elif is_list(value) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def is_list(value: Json) -> TypeGuard["Sequence[Json]"]:
    """Whether the value is a list; text is a sequence in Python and never one here."""
    return value is not None and not isinstance(value, str) and isinstance(value, (list, Sequence))


def text(value: Json, path: str) -> str:
    """The text at the path; an empty string if there is none. Numbers become their text."""
    found = dig(value, path)
    return "" if found is None or isinstance(found, Mapping) or is_list(found) else str(found)


def number(value: Json, path: str) -> float:
    """The number at the path; 0 if there is none or it is not known yet."""
    found = dig(value, path)
    return float(found) if isinstance(found, (int, float)) else 0.0


def items(value: Json, path: str) -> list[Json]:
    """The list at the path; one value counts as a list of one, as IAM documents have it; empty if absent."""
    found = dig(value, path)
    if found is None:
        return []
    return list(found) if is_list(found) else [found]


def mapping(value: Json, path: str) -> Mapping[str, Json]:
    """The mapping at the path; empty if there is none."""
    found = dig(value, path)
    return found if isinstance(found, Mapping) else {}


def texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}" if path else str(key))
    elif is_list(value):
        for index, inner in enumerate(value):
            yield from texts(inner, f"{path}.{index}")


def parsed(value: Json) -> Json:
    """A JSON text as its value; `None` if it is not known yet or is not JSON."""
    if not isinstance(value, str) or UNKNOWN in value:
        return None
    try:
        result: Json = json.loads(value)
    except ValueError:
        return None
    return result
