"""The glossary of CONTRIBUTING.md, the metaphors that gave way to the field's terms, and words counted by room."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture import words
from tests.support import tree

MOST_TERMS = 20
SLACK = 10
"""How far a number of the table may be above the count before it has to be lowered."""
RETIRED = frozenset({"cashier", "desk", "guest", "keeper", "lookout", "arrears", "trouble", "vigil", "crew", "rush"})


def glossary(text: str) -> dict[str, str]:
    """Return the terms with the field's name of each."""
    section = text.partition("## Glossary")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) \|$", section, re.MULTILINE)
    return {term: name.strip() for term, name in rows if term != "term"}


def retired(path: Path) -> list[str]:
    """Return the classes, functions and modules that are named by a retired metaphor."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = [(node.lineno, node.name) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
    words = [(line, name, re.findall(r"[A-Z]?[a-z]+", name)) for line, name in [(0, path.stem), *names]]
    return [
        f"{tree.place(path, line)} {name}" for line, name, parts in words if RETIRED & {one.lower() for one in parts}
    ]


def test_the_glossary_is_short_and_names_the_fields_terms() -> None:
    """The glossary has at most twenty terms, and each stands beside the field's name."""
    terms = glossary((tree.ROOT / "CONTRIBUTING.md").read_text())
    assert 0 < len(terms) <= MOST_TERMS
    assert [term for term, name in terms.items() if not name] == []


def test_retired_metaphors_stay_away() -> None:
    """No module, class or function of the platform is named by a metaphor that was retired."""
    assert [finding for path in tree.python_files("platform") for finding in retired(path)] == []


def test_a_metaphor_is_found(tmp_path: Path) -> None:
    """A class named by a retired metaphor is reported with its line."""
    path = tmp_path / "watch.py"
    path.write_text("class GateKeeper:\n    pass\n")
    assert retired(path) == ["watch.py:1 GateKeeper"]


def test_words_that_make_a_reader_look_twice_only_fall() -> None:
    """No room has more of them than the table says: `python -m tests.architecture.words ROOM` lists them."""
    most, now = words.table(), words.counted()
    rows = [(room, row, most[room]) for room, row in now.items() if room in most]
    above = {(room, family): n for room, row, limits in rows for family, n in row.items() if n > limits[family]}
    assert above == {}


def test_the_table_follows_what_is_gained() -> None:
    """No number of the table is far above the count, and each room has its row: `… words --write` lowers and adds."""
    most, now = words.table(), words.counted()
    assert sorted(most) == sorted(now)
    loose = {
        (room, family): n for room, row in most.items() for family, n in row.items() if n > now[room][family] + SLACK
    }
    assert loose == {}


@pytest.mark.parametrize(
    ("source", "families"),
    [
        ('"""Say to the caller what a worker holds, if it is known."""', []),
        ('"""Whose turn it is, where nobody waits so long."""', ["who", "where", "so many"]),
        ('def f():\n    """Return the count."""', ["short"]),
        ('def f():\n    """Return the seconds that an answer took, without the wait."""', []),
        ('@app.command()\ndef f():\n    """Show what runs."""', []),
        ('class Lost(Failed):\n    """The worker was lost."""', []),
        (
            'class A:\n    def __init__(self):\n        """Take the rooms, and the clock that all of them use."""',
            ["on __init__"],
        ),
        ("class Turns:\n    pass", ["type names"]),
        ("class FairTurns:\n    pass", []),
    ],
)
def test_a_word_that_makes_a_reader_look_twice_is_found(tmp_path: Path, source: str, families: list[str]) -> None:
    """Each family is found in what it is about, and texts for people are left alone."""
    path = tmp_path / "a.py"
    path.write_text(source + "\n")
    assert [one.family for one in words.findings(path, "room")] == families


def test_the_table_is_only_ever_lowered() -> None:
    """Writing the table takes a count that fell, and never one that rose."""
    now = {"a": Counter({"who": 3, "where": 9})}
    after = words.lowered({"a": {"who": 5, "where": 7}}, now)
    assert (after["a"]["who"], after["a"]["where"]) == (3, 7)
