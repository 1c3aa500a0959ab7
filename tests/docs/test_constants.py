"""The constants on the pages of `docs/how-it-decides` are those of the code."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from penstock.settings import Settings
from tests.support import tree

FOLDER = tree.ROOT / "docs/how-it-decides"
HEAD = re.compile(r"^\| constant \| value \| [^|]+ \|\n\|---\|---\|---\|\n", re.MULTILINE)
PAGES = [page for page in sorted(FOLDER.glob("*.md")) if HEAD.search(page.read_text())]
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
_NUMBER = re.compile(r"^([\d,]+(?:\.\d+)?)(?:/(\d+))?")


@cache
def numbers() -> dict[str, set[float]]:
    """Return each name's numbers in the platform's code: constants, and defaults of fields and parameters."""
    found = defaultdict[str, set[float]](set)
    for path in tree.python_files("platform"):
        for node in ast.walk(ast.parse(path.read_text())):
            for name, value in _named(node):
                found[name] |= set()
                if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                    found[name].add(float(value.value))
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, int | float):
            found[f"PENSTOCK_{name.upper()}"].add(float(field.default))
    return found


def _named(node: ast.AST) -> list[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        pairs = zip(*(_elements(one) for one in (node.targets[0], node.value)), strict=False)
        return [(name.id, value) for name, value in pairs if isinstance(name, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [(node.target.id, node.value)]
    if isinstance(node, ast.arguments):
        return [(one.arg, value) for one, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
    return []


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def told(text: str) -> list[tuple[str, str]]:
    """Return the names in a page's table of constants, each with its value as the page writes it."""
    head = HEAD.search(text)
    table = text[head.end() :].partition("\n\n")[0] if head else ""
    rows = [(re.findall(r"`([A-Za-z_]+)`", names), value.split(", ")) for names, value in _ROW.findall(table)]
    return [pair for names, values in rows for pair in zip(names, values, strict=False)]


def wrong(name: str, value: str) -> str:
    """Say what is wrong with a constant that a page tells; empty if the code has it so, or the value is no number."""
    number = _NUMBER.match(value)
    if name not in numbers():
        return f"{name} is in no file" if re.search(r"[A-Z_]", name) else ""
    if number is None or not numbers()[name]:
        return ""
    whole, of = number.groups()
    said = float(whole.replace(",", ""))
    known = numbers()[name]
    scaled = {said, said / 1e2, said / 1e3, said * float(1 << 20), said * 1e9}  # seconds, %, ms, MiB, GB
    scaled = {float(of), said / float(of)} if of else scaled
    return "" if known & scaled else f"{name} is {value} on the page and {sorted(known)} in the code"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_constants_are_those_of_the_code(page: Path) -> None:
    """Each constant that a page names is in the code, with the value that the page gives it."""
    assert [fault for name, value in told(page.read_text()) if (fault := wrong(name, value))] == []


def test_a_constant_that_has_changed_is_found() -> None:
    """A value that the code does not have, and a name that it does not have, are reported."""
    rows = "| `HOLD_S`, `NEVER_S` | 11 s, 1 s | - |\n| `HOLD_S` | 10 s | - |\n"
    page = f"| constant | value | reason |\n|---|---|---|\n{rows}\n"
    assert [bool(wrong(name, value)) for name, value in told(page)] == [True, True, False]
