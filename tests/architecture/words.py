"""Counts words that make a reader look twice, by room: ``python -m tests.architecture.words [--write]``.

The counts are held against a table that only falls (``words.yaml``). With ``--write`` each number of the table that is
above the count is lowered to it; none is ever raised.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.support import tree

TABLE = Path(__file__).with_name("words.yaml")
PACKAGE = tree.ROOT / "platform/penstock"
SHORT_WORDS = 6
FAMILIES = {
    "who": re.compile(r"\b(?:who|whose|whoever|whom|nobody|somebody|anybody|everybody)\b", re.IGNORECASE),
    "where": re.compile(r"\bwhere\b", re.IGNORECASE),
    "so many": re.compile(r"\bso (?:many|much|long)\b", re.IGNORECASE),
}
"""Docstrings with one of these words. The first ones are right for people and callers, and for nothing else."""
EVERYDAY = frozenset(
    """
    ballast beside blame clearly company crowd doubt elder guest had hand heard house kept least lot met moment most
    ours parcel place pulse purse reach scene side told turn voice visit want wanted wish witness word worth
    """.split()
)
"""Everyday words that name no type: the field has a term for each of these."""
_KINDS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_HELP = frozenset({"command", "callback", "get", "post", "put", "patch", "delete"})
"""Decorators under which a docstring is a help text or an API's documentation."""


class Finding(NamedTuple):
    """One thing that counts, with its place."""

    room: str
    family: str
    place: str


def findings(path: Path, room: str) -> Iterator[Finding]:
    """Yield what counts in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (ast.Module, *_KINDS)):
            continue
        place = tree.place(path, getattr(node, "lineno", 1))
        yield from (Finding(room, family, place) for family in _of(node))


def _of(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    text = ast.get_docstring(node) or ""
    yield from (family for family, words in FAMILIES.items() if words.search(text))
    if isinstance(node, ast.Module):
        return
    if text and len(text.split()) <= SHORT_WORDS and not _is_a_text(node):
        yield "short"
    if text and node.name == "__init__":
        yield "on __init__"
    if isinstance(node, ast.ClassDef) and _is_everyday(node.name):
        yield "type names"


def _is_a_text(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether people read this docstring: a command's help, an API's documentation, an error's message."""
    if isinstance(node, ast.ClassDef):
        return any("Error" in name or name in {"BadRequest", "Rejected", "Evicted", "Failed"} for name in _bases(node))
    called = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
    return any(isinstance(one, ast.Attribute) and one.attr in _HELP for one in called)


def _bases(node: ast.ClassDef) -> Iterator[str]:
    yield from (ast.unparse(base).rpartition(".")[2] for base in node.bases)


def _is_everyday(name: str) -> bool:
    """Tell whether a type is named by nothing but everyday words, in the singular or plural."""
    words = [word.lower() for word in re.findall(r"[A-Z][a-z]*", name)]
    return bool(words) and all(word in EVERYDAY or word.removesuffix("s") in EVERYDAY for word in words)


@cache
def counted() -> dict[str, Counter[str]]:
    """Return the counts of each room of the platform."""
    rooms = {path.name: Counter[str]() for path in sorted(PACKAGE.iterdir()) if path.is_dir() and path.name[0] != "_"}
    for path in tree.python_files("platform"):
        parts = path.relative_to(PACKAGE).parts
        if len(parts) > 1:
            rooms[parts[0]].update(one.family for one in findings(path, parts[0]))
    return rooms


def table() -> dict[str, dict[str, int]]:
    """Return the most that each room may have of each family."""
    found: dict[str, dict[str, int]] = yaml.safe_load(TABLE.read_text())
    return found


def lowered(most: dict[str, dict[str, int]], now: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    """Return the table with each number lowered to the count; a room that is new begins with its counts."""
    families = (*FAMILIES, "short", "on __init__", "type names")
    return {
        room: {family: min(most.get(room, counts).get(family, 0), counts[family]) for family in families}
        for room, counts in now.items()
    }


def written(numbers: dict[str, dict[str, int]]) -> str:
    """Return the table as its file: a line for each room."""
    head = "# The most that each room may have of words that make a reader look twice (CONTRIBUTING, Words).\n"
    how = "# It only falls: `python -m tests.architecture.words --write` lowers it to what there is.\n"
    width = max(map(len, numbers)) + 1
    lines = [
        f"{f'{room}:':{width}} {{{', '.join(f'{family}: {most}' for family, most in row.items())}}}\n"
        for room, row in numbers.items()
    ]
    return head + how + "".join(lines)


def main() -> None:
    """Print the findings of the rooms that are named, or the counts of all; with ``--write`` lower the table."""
    now, most = counted(), table() if TABLE.exists() else {}
    if "--write" in sys.argv:
        TABLE.write_text(written(lowered(most, now)))
    named = set(sys.argv[1:]) & set(now)
    for path in tree.python_files(*(["platform"] if named else [])):
        for one in findings(path, path.relative_to(PACKAGE).parts[0]):
            if one.room in named:
                sys.stdout.write(f"{one.place}: {one.family}\n")
    sys.stdout.write(written(lowered({}, now)))


if __name__ == "__main__":
    main()
