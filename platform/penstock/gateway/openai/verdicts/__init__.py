"""The table of fields: for each API and each field that SDKs and the engine document, its verdict.

``python -m scripts.fields`` writes ``table.jsonl``: verdicts are decided by hand in the YAML files beside it, shapes
are read from the installed SDKs and engine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from penstock.domain.serving.request import Api

FILE = Path(__file__).with_name("table.jsonl")
ANY = "*"
"""The kind of an object that does not name its kind."""
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "any": (str, bool, int, float, list, dict),
}


class _Row(msgspec.Struct, frozen=True):
    verdict: str = "served"
    types: tuple[str, ...] = ()
    says: str = ""
    by_value: dict[str, tuple[str, str]] = {}
    bounds: dict[str, int | float] = {}
    each: dict[str, int | float] = {}
    pattern: str = ""
    is_open: bool = False
    any_text: bool = False
    fields: "dict[str, _Row]" = {}
    required: tuple[str, ...] = ()
    items: "_Row | None" = None
    most: int = 0
    key: str = ""
    kinds: "dict[str, _Kind]" = {}


class _Kind(msgspec.Struct, frozen=True):
    fields: dict[str, _Row] = {}
    required: tuple[str, ...] = ()
    says: str = ""


class _Table(msgspec.Struct, frozen=True):
    """``counted`` are the fields of the API's token count."""

    api: Api
    root: _Row
    counted: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Kind:
    """``says`` is the refusal of the whole kind; ``required`` fields may not be null."""

    fields: "dict[str, Field]"
    required: tuple[str, ...] = ()
    says: str = ""
    plain: "dict[str, frozenset[type]]" = field(default_factory=dict)
    """By field, the Python types of values that need no further check."""


@dataclass(slots=True, kw_only=True)
class Field:
    """``plain`` are the Python types of values that need no further check."""

    path: str
    verdict: str
    says: str
    types: frozenset[str]
    plain: frozenset[type]
    by_value: dict[str, tuple[str, str]]
    any_text: bool
    bounds: dict[str, int | float]
    each: dict[str, int | float] = field(default_factory=dict)
    """Bounds of an object's values."""
    pattern: re.Pattern[str] | None = None
    items: "Field | None" = None
    most: int = 0
    key: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)
    is_open: bool = True

    @property
    def is_served(self) -> bool:
        return self.verdict == "served"

    def is_plain(self, one: object) -> bool:
        """An object of a named kind, as most messages are, needs no further check."""
        if type(one) is not dict or not self.key or not self.is_served:
            return False
        said = one.get(self.key)
        kind = self.kinds.get(said) if type(said) is str else None
        if kind is None:
            return False
        plain = kind.plain
        for name, value in one.items():
            if type(value) not in plain.get(name, ()):
                return False
        return not kind.required or one.keys() >= set(kind.required)


def _read(path: Path = FILE) -> list[_Table]:
    return [msgspec.json.decode(line, type=_Table) for line in path.read_bytes().splitlines()]


def _field(row: _Row, path: str) -> Field:
    kinds = {name: _kind(kind, path) for name, kind in row.kinds.items()}
    if row.fields or row.required:
        kinds[ANY] = _kind(_Kind(row.fields, row.required), path)
    needs_look = bool(row.by_value or row.bounds or row.pattern) or row.verdict != "served"
    return Field(
        path=path,
        verdict=row.verdict,
        says=row.says,
        types=frozenset(row.types) - {"null"},
        plain=frozenset() if needs_look else frozenset(one for name in row.types for one in _PLAIN.get(name, ())),
        by_value=row.by_value,
        any_text=row.any_text,
        bounds=row.bounds,
        each=row.each,
        pattern=re.compile(row.pattern) if row.pattern else None,
        items=None if row.items is None else _field(row.items, f"{path}[]"),
        most=row.most,
        key=row.key,
        kinds=kinds,
        is_open=not kinds,
    )


def _kind(kind: _Kind, path: str) -> Kind:
    fields = {name: _field(row, f"{path}.{name}".lstrip(".")) for name, row in kind.fields.items()}
    required = tuple(name for name in kind.required if fields[name].is_served)
    plain = {name: one.plain for name, one in fields.items() if one.plain}
    return Kind(fields=fields, required=required, says=kind.says, plain=plain)


_TABLES = _read()
TABLE: Mapping[Api, Field] = {table.api: _field(table.root, "") for table in _TABLES}
"""Each API's request as one field."""
COUNTED: Mapping[Api, frozenset[str]] = {table.api: frozenset(table.counted) for table in _TABLES}
"""By API, the fields that its token count documents."""
