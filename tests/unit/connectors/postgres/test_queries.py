"""Named queries: every one is used, every use has one, and no other file holds SQL."""

import re
from pathlib import Path

import pytest

from penstock.connectors.postgres import queries

FOLDER = Path(queries.__file__).parent
SOURCES = {path.name: path.read_text() for path in FOLDER.glob("*.py")}
LOADED = {file: text for text in SOURCES.values() for file in re.findall(r'load\("(\w+)"\)', text)}
SQL = re.compile(r'"\s*(?:select|insert|update|delete|create|alter|drop)\s', re.IGNORECASE)


def test_every_file_of_queries_is_loaded() -> None:
    """The files in the folder and the files that are loaded are the same."""
    assert set(LOADED) == {path.stem for path in (FOLDER / "queries").glob("*.sql")}


@pytest.mark.parametrize("file", sorted(LOADED))
def test_queries_and_their_uses_match(file: str) -> None:
    """No query is left over, and none is missing; names may be made of a source's own name."""
    used = set(re.findall(r'_SQL\["(\w+)"\]', LOADED[file]))
    for suffix in re.findall(r'_SQL\[f"\{self\._name\}_(\w+)"\]', LOADED[file]):
        used |= {f"{source}_{suffix}" for source in re.findall(r'name="(\w+)"', LOADED[file])}
    assert used == set(queries.load(file))


def test_sql_stands_in_query_files_alone() -> None:
    """No module of the adapter spells a statement itself."""
    assert [name for name, text in SOURCES.items() if SQL.search(text)] == []


def test_two_queries_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names two queries alike can't be loaded."""
    (tmp_path / "twice.sql").write_text("-- name: a\nselect 1\n-- name: a\nselect 2\n")
    monkeypatch.setattr(queries, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match="one name"):
        queries.load("twice")
