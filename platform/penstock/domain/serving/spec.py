"""Reader of SLO specifications: each value by key and kind, or an error that names source, key and remedy.

It takes the value that a YAML reader made of a file; its callers read the files.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from math import isfinite
from typing import TypeVar

Choice = TypeVar("Choice", bound=StrEnum)


class SpecRefused(Exception):
    """An SLO specification is wrong; the message names source, key and remedy."""


class SpecReader:
    def __init__(self, source: str, path: str, raw: object) -> None:
        self._source, self._path = source, path
        if not isinstance(raw, Mapping):
            raise SpecRefused(f"{source}: {path or 'the file'}: must hold keys and values")
        self._values: Mapping[object, object] = raw

    @property
    def keys(self) -> list[str]:
        return [str(key) for key in self._values]

    def wrong(self, key: str, remedy: str) -> SpecRefused:
        place = f"{self._path}.{key}" if self._path else key
        return SpecRefused(f"{self._source}: {place}: {remedy}")

    def only(self, allowed: tuple[str, ...]) -> None:
        for key in self.keys:
            if key not in allowed:
                raise self.wrong(key, f"no such key here; there are {', '.join(allowed)}")

    def inner(self, key: str) -> "SpecReader":
        place = f"{self._path}.{key}" if self._path else key
        return SpecReader(self._source, place, self._value(key))

    def each(self, key: str) -> "list[SpecReader]":
        found = self._list(key)
        place = f"{self._path}.{key}" if self._path else key
        return [SpecReader(self._source, f"{place}[{i}]", one) for i, one in enumerate(found)]

    def whole_numbers(self, key: str) -> list[int]:
        """Above 0; an empty list is refused."""
        found = self._list(key)
        if not all(type(one) is int and one > 0 for one in found):
            raise self.wrong(key, f"{found!r} must be whole numbers above 0")
        return [one for one in found if isinstance(one, int)]

    def text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "say it in a sentence")
        return value

    def choice(self, key: str, choices: type[Choice]) -> Choice:
        value = self._value(key)
        if value not in list(choices):
            raise self.wrong(key, f"{value!r} is none of {', '.join(choices)}")
        return choices(str(value))

    def matching(self, key: str, pattern: str, expected: str) -> str:
        value = self._value(key)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self.wrong(key, f"{value!r} must be {expected}")
        return value

    def number(self, key: str, allows: Callable[[float], bool], expected: str) -> float:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not allows(value):
            raise self.wrong(key, f"{value!r} must be {expected}")
        return float(value)

    def _list(self, key: str) -> list[object]:
        value = self._value(key)
        if not isinstance(value, list) or not value:
            raise self.wrong(key, "must be a list of at least one")
        return value

    def _value(self, key: str) -> object:
        if key not in self._values:
            raise self.wrong(key, "is missing; add it")
        return self._values[key]
