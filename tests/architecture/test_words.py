"""The glossary of CONTRIBUTING.md, and the metaphors that gave way to the field's terms."""

import ast
import re
from pathlib import Path

from tests.support import tree

MOST_TERMS = 20
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
