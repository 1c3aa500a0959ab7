"""Reads untrusted JSON and YAML written by people: each name once per object, finite numbers, no references.

A document that parsers would resolve differently (two values of one name) or could not compute with (10^400) is
refused, with the name at fault.
"""

import json
from collections.abc import Iterable
from typing import Any, NoReturn

import yaml

MOST_DIGITS = 308
"""Digits of a whole number: longer ones exceed every double."""
_SHOWN_CHARS = 80


class DocumentRefused(ValueError):
    """The text is no such document; ``twice`` is a name that occurs twice in one object, ``line`` is 0 in JSON."""

    def __init__(self, says: str, *, twice: str = "", line: int = 0) -> None:
        super().__init__(says)
        self.twice, self.line = twice, line


def json_of(raw: bytes | str) -> Any:  # noqa: ANN401  JSON
    """Return the value of a JSON document in UTF-8, or raise ``DocumentRefused``."""
    try:
        return json.loads(
            raw, object_pairs_hook=_once, parse_int=_whole, parse_float=_finite, parse_constant=_no_constant
        )
    except DocumentRefused:
        raise
    except RecursionError as error:
        raise DocumentRefused("it is nested too deeply") from error
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise DocumentRefused(f"it is no valid JSON{where}") from error


def yaml_of(raw: bytes | str) -> Any:  # noqa: ANN401  YAML
    """Return the value of a YAML document, or raise ``DocumentRefused``; JSON is YAML too."""
    try:
        return yaml.load(raw, _Plain)  # noqa: S506  a kind of SafeLoader
    except DocumentRefused:
        raise
    except RecursionError as error:
        raise DocumentRefused("it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentRefused(f"it is no valid YAML{_at(getattr(error, 'problem_mark', None))}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _check_once((name, 0) for name, _ in pairs)
    return found


def _check_once(names: Iterable[tuple[str, int]]) -> None:
    """Raise ``DocumentRefused`` for the first name of an object that stands twice, with its second line."""
    seen = set[str]()
    for name, line in names:
        if name in seen:
            raise DocumentRefused(f"the name {name[:_SHOWN_CHARS]!a} stands twice in one object", twice=name, line=line)
        seen.add(name)


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise DocumentRefused(f"a number has {len(text):,} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise DocumentRefused(f"the number {text[:_SHOWN_CHARS]} is too large")
    return number


def _no_constant(text: str) -> NoReturn:
    raise DocumentRefused(f"{text} is no number of JSON")


def _at(mark: Any) -> str:  # noqa: ANN401  the library's own
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""


class NamesOnce:
    """Makes a YAML loader refuse a name that stands twice in one object; the library takes its last value."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002  the library's
        _check_once((one.value, one.start_mark.line + 1) for one, _ in node.value if isinstance(one, yaml.ScalarNode))
        return super().construct_mapping(node, deep=deep)  # type: ignore[misc]


class _Plain(NamesOnce, yaml.SafeLoader):
    """A YAML loader that follows no reference: ten lines of references may expand to a billion values."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401  the library's own
        if self.check_event(yaml.AliasEvent):
            raise DocumentRefused("it refers to a part of itself by `*`: write that part out")
        return super().compose_node(parent, index)


def _number(loader: _Plain, node: Any) -> int | float:  # noqa: ANN401  the library's own
    if len(node.value) > MOST_DIGITS:
        raise DocumentRefused(f"a number has {len(node.value):,} digits{_at(node.start_mark)}")
    is_whole = node.tag.endswith(":int")
    found: int | float = loader.construct_yaml_int(node) if is_whole else loader.construct_yaml_float(node)
    if not is_whole and not abs(found) < float("inf"):
        raise DocumentRefused(f"the number {node.value[:_SHOWN_CHARS]} is not finite{_at(node.start_mark)}")
    return found


for _tag in ("int", "float"):
    _Plain.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)
