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


SESSIONS = re.compile(
    r"advisory_lock\(|(^|;)\s*set (?!transaction|local )|set_config|\blisten\b|\bdeclare\b.*cursor|create temp",
    re.IGNORECASE,
)
OWN_CONNECTION = {("leadership", "take"), ("runners", "lock")}


@pytest.mark.parametrize(
    "kept", ["select pg_advisory_lock(1)", "set work_mem = 1", "listen news", "create temp table a ()"]
)
def test_session_state_is_recognised(kept: str) -> None:
    """Locks, settings, subscriptions and tables that outlive a transaction."""
    assert SESSIONS.search(kept)


def test_no_query_through_the_pool_leaves_session_state() -> None:
    """Pooled connections are not reset: only queries on a connection of their own may leave some."""
    found = {(file, name) for file in LOADED for name, sql in queries.load(file).items() if SESSIONS.search(sql)}
    assert found == OWN_CONNECTION
