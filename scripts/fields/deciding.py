"""Verdicts of each documented field, beside its shape. Pure.

What is refused is not walked further: nobody reaches what is inside.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scripts.fields.shapes import ANY, Shape, joined

OPEN = "*"
WORDS = ("served", "told", "dropped", "refused")
_EACH, _LIKE, _SOME = "each ", "like ", "not empty"
_MOST = re.compile(r"at most (\d+) items")
_RANGE = re.compile(r"(?:(?P<low>from|above) (?P<least>-?[0-9.]+))?(?: ?to (?P<most>-?[0-9.]+))?")
"""Bounds that a provider says in prose alone: ``from 0 to 2``, ``above 0``; of an object's values with ``each``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    word: str
    says: str = ""


def verdict_of(text: str) -> Verdict:
    word, _, says = text.partition(" ")
    if word not in WORDS or (word == "served") == (word != "served" and bool(says)):
        raise ValueError(f"no verdict: {text!r}")
    if word != "served" and not says:
        raise ValueError(f"a verdict without words: {text!r}")
    return Verdict(word=word, says=says)


def bounds_of(says: str) -> dict[str, object]:
    """Return a served row's bounds, if its words are some."""
    if says.startswith(_EACH):
        return {"each": bounds_of(says.removeprefix(_EACH))["bounds"]}
    if says.startswith(_LIKE):
        return {"pattern": says.removeprefix(_LIKE)}
    if says == _SOME:
        return {"bounds": {"minLength": 1}}
    if many := _MOST.fullmatch(says):
        return {"most": int(many[1])}
    found = _RANGE.fullmatch(says)
    if not says or found is None:
        return {}
    least, most = found["least"], found["most"]
    low = {"minimum" if found["low"] == "from" else "exclusiveMinimum": float(least)} if least else {}
    return {"bounds": low | ({"maximum": float(most)} if most else {})}


def each(row: str) -> Iterator[str]:
    """Yield a row's paths: one for each name in braces, or for each value that it names."""
    if "{" in row:
        before, _, rest = row.partition("{")
        names, _, behind = rest.partition("}")
        for name in names.split(","):
            yield from each(f"{before}{name}{behind}")
        return
    path, equals, values = row.partition("=")
    yield from (f"{path}{equals}{value}" for value in values.split("|"))


class Deciding:
    """Joins shapes and verdicts; ``missing`` and ``used`` are the rows that were looked for."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._rows = {path: verdict_of(text) for row, text in rows.items() for path in each(row)}
        self.missing: list[str] = []
        self.used: set[str] = set()

    def decided(self, shape: Shape) -> dict[str, object]:
        return self._object(shape, "")

    def _row(self, path: str) -> Verdict:
        found = self._rows.get(path)
        if found is None:
            if path not in self.missing:
                self.missing.append(path)
            return Verdict(word="refused", says="nobody has decided it")
        self.used.add(path)
        return found

    def _node(self, shape: Shape, path: str) -> dict[str, object]:
        verdict = self._row(path)
        node: dict[str, object] = {"verdict": verdict.word, "types": sorted(shape.types)}
        if verdict.word != "served":
            node["says"] = verdict.says
        if by_value := self._by_value(shape, path, verdict):
            node["by_value"] = by_value
        if verdict.word != "served":
            return node
        if verdict.says == OPEN:
            return node | {"is_open": True}
        if shape.bounds:
            node["bounds"] = shape.bounds
        node |= self._object(shape, path) | bounds_of(verdict.says)
        if shape.most and "most" not in node:
            node["most"] = shape.most
        if shape.items is not None:
            node["items"] = self._node(shape.items, f"{path}[]")
        return node

    def _by_value(self, shape: Shape, path: str, verdict: Verdict) -> dict[str, list[str]]:
        """Return the verdict of each fixed value: the row's own list, then rows of one value."""
        values = sorted(str(one).lower() if isinstance(one, bool) else str(one) for one in shape.values or ())
        own = self._own(path)
        if shape.types <= {"boolean", "null"}:
            values = []
        is_list = verdict.word == "served" and verdict.says and not bounds_of(verdict.says)
        listed = set(verdict.says.split("|")) - {OPEN} if is_list else set()
        found: dict[str, list[str]] = {}
        for value in sorted({*values, *own, *listed}):
            row = f"{path}={value}"
            if value in own:
                one = self._row(row)
                found[value] = [one.word, one.says]
            elif value in listed:
                found[value] = ["served", ""]
            elif verdict.word == "served":
                one = self._row(row)
                found[value] = [one.word, one.says]
        return found

    def _own(self, path: str) -> set[str]:
        """Return the values that have a row of their own."""
        return {row.partition("=")[2] for row in self._rows if row.startswith(f"{path}=")}

    def _object(self, shape: Shape, path: str) -> dict[str, object]:
        node: dict[str, object] = {}
        if shape.is_open and not shape.fields and not shape.kinds:
            node["is_open"] = True
        if shape.values is None and not self._lists(path):
            node["any_text"] = True
        if shape.fields:
            node["fields"] = self._fields(shape, path)
            node["required"] = sorted(shape.required or ())
        if shape.key:
            node["key"] = shape.key
            node["kinds"] = dict(self._kinds(shape, path))
        return node

    def _lists(self, path: str) -> bool:
        """Tell whether the row lists its values: no other is served."""
        return path in self._rows and "|" in self._rows[path].says

    def _fields(self, shape: Shape, path: str) -> dict[str, object]:
        return {name: self._node(one, f"{path}.{name}".lstrip(".")) for name, one in sorted(shape.fields.items())}

    def _kinds(self, shape: Shape, path: str) -> Iterator[tuple[str, object]]:
        row = f"{path}.{shape.key}"
        listed = self._rows[row].says.split("|") if row in self._rows else []
        others = shape.kinds.get(ANY)
        for value, kind in sorted(shape.kinds.items()):
            is_served = value in listed or value == ANY
            verdict = Verdict(word="served") if is_served else self._row(f"{row}={value}")
            if verdict.word == "served":
                whole = kind if others is None or shape.key not in others.fields else joined(kind, others)
                fields = self._fields(whole, path)
                if value != ANY:
                    fields[shape.key] = {"verdict": "served", "types": ["string"]}  # it was read to find the kind
                yield value, {"fields": fields, "required": sorted(whole.required or ())}
            else:
                yield value, {"says": verdict.says}
        for value in sorted(self._own(row) - shape.kinds.keys()):  # another object of this path documents it
            yield value, {"says": self._row(f"{row}={value}").says}
