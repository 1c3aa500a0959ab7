"""YAML to frozen dataclasses, strictly: an unknown key, a missing key and a wrong type are each refused by path.

It knows the types of this package and nothing of what the values mean; that is `rules`.
"""

import dataclasses
import types
from enum import StrEnum
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

from infra.config.problems import ConfigRefusedError, Problem

T = TypeVar("T")


def shape(cls: type[T], raw: object, key: str) -> T:
    """Build `cls` from parsed YAML. Raises `ConfigRefusedError` with every fault found at this level."""
    if not isinstance(raw, dict):
        raise _refusal(key, f"is {_kind(raw)}", f"give a mapping with the keys of {cls.__name__}")
    hints = get_type_hints(cls)
    fields = {item.name: item for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    problems = _unknown(raw, fields, key) + _missing(raw, fields, key)
    if problems:
        raise ConfigRefusedError(problems)
    return cls(**{name: _value(hints[name], raw[name], f"{key}.{name}") for name in raw})


def _unknown(raw: dict[object, object], fields: dict[str, dataclasses.Field[object]], key: str) -> list[Problem]:
    known = ", ".join(sorted(fields))
    return [
        Problem(key=f"{key}.{name}", fault="is not a known key", remedy=f"remove it or use one of: {known}")
        for name in raw
        if name not in fields
    ]


def _missing(raw: dict[object, object], fields: dict[str, dataclasses.Field[object]], key: str) -> list[Problem]:
    return [
        Problem(key=f"{key}.{name}", fault="is missing", remedy=f"add `{name}:` ({item.type})")
        for name, item in fields.items()
        if name not in raw and item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    ]


def _value(hint: object, raw: object, key: str) -> object:
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple(_value(args[0], item, f"{key}[{index}]") for index, item in enumerate(_typed(list, raw, key)))
    if origin is dict:
        return {_value(args[0], k, key): _value(args[1], v, f"{key}.{k}") for k, v in _typed(dict, raw, key).items()}
    if origin in (Union, types.UnionType):
        return None if raw is None else _value(args[0], raw, key)
    cls = cast("type[object]", hint)
    if dataclasses.is_dataclass(cls):
        return shape(cls, raw, key)
    return _member(cls, raw, key) if issubclass(cls, StrEnum) else _typed(cls, raw, key)


def _member(cls: type[StrEnum], raw: object, key: str) -> StrEnum:
    try:
        return cls(cast("str", raw))
    except ValueError:
        raise _refusal(key, f"is {raw!r}", f"use one of: {', '.join(cls)}") from None


def _typed(cls: type[T], raw: object, key: str) -> T:
    if type(raw) is not cls:
        raise _refusal(key, f"is {_kind(raw)}", f"give {_article(cls.__name__)} (quote numbers that are names)")
    return raw


def _kind(raw: object) -> str:
    return f"{_article(type(raw).__name__)} ({raw!r})"


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _refusal(key: str, fault: str, remedy: str) -> ConfigRefusedError:
    return ConfigRefusedError([Problem(key=key, fault=fault, remedy=remedy)])
