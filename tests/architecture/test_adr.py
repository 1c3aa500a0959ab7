"""Decision records: four sections each, and what validates a decision exists."""

import re
from pathlib import Path

import pytest

from tests.support import tree

ADRS = tree.ROOT / "adr"
SECTIONS = ["Context", "Decision", "Consequences", "Validated by"]
TITLE_WORDS = 15
STATUS = re.compile(r"^Status: (proposed|accepted|superseded by \d{4})(, \d{4}-\d{2}-\d{2})?$", re.MULTILINE)


def records(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.md"))


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {title.strip(): body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}


def title(path: Path) -> str:
    """Return a record's title without its number."""
    return path.read_text().partition("\n")[0].partition(". ")[2]


def status(path: Path) -> str:
    """Return a record's status as the index shows it, with a link to its successor."""
    found = STATUS.search(path.read_text())
    successor = re.fullmatch(r"superseded by (\d{4})", found[1]) if found else None
    if successor is None:
        return "in force"
    return f"superseded by [{successor[1]}]({next(ADRS.glob(f'{successor[1]}-*.md')).name})"


def named_paths(body: str) -> list[str]:
    """Return the paths among the words in backticks: those with a slash, without a test's name behind `::`."""
    return [word.partition("::")[0] for word in re.findall(r"`([^`\s]+/[^`\s]*)`", body)]


def faults(path: Path, root: Path) -> list[str]:
    """Return what is wrong with one record."""
    text = path.read_text()
    found = sections(text)
    wrong = [f"sections are {list(found)}"] if list(found) != SECTIONS else []
    wrong += [f"section {title} is empty" for title, body in found.items() if not body]
    if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name):
        wrong.append("name is not NNNN-words-with-dashes.md")
    if not text.startswith(f"# {path.name[:4]}. "):
        wrong.append("title does not start with its number")
    if len(title(path).split()) > TITLE_WORDS:
        wrong.append(f"title has more than {TITLE_WORDS} words")
    if not STATUS.search(text):
        wrong.append("no status line")
    paths = named_paths(found.get("Validated by", ""))
    wrong += [] if paths else ["names no test or contract"]
    return wrong + [f"{name} does not exist" for name in paths if not (root / name).exists()]


@pytest.mark.parametrize("path", records(ADRS), ids=lambda path: path.stem)
def test_a_record_is_complete(path: Path) -> None:
    """A decision record has its four sections in order, a status, and paths of tests that exist."""
    assert faults(path, tree.ROOT) == []


def test_numbers_are_unique() -> None:
    """No two decision records share a number."""
    numbers = [path.name[:4] for path in records(ADRS)]
    assert len(numbers) == len(set(numbers))


def test_the_index_lists_every_record() -> None:
    """The index has each record once, with its title, and whether it is in force or which record replaced it."""
    rows = re.findall(
        r"^\| \[\d{4}\]\((\d{4}-[^)]+\.md)\) \| (.+) \| (.+) \|$", (ADRS / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == [(path.name, title(path), status(path)) for path in records(ADRS)]


GOOD = """# 0007. A choice

Status: accepted, 2026-01-31

## Context

x

## Decision

x

## Consequences

x

## Validated by

* `tests/a.py::test_b`
"""


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("## Consequences", "## Results"), "sections are ['Context', 'Decision', 'Results', 'Validated by']"),
        (("## Context\n\nx", "## Context\n"), "section Context is empty"),
        (("`tests/a.py::test_b`", "`tests/gone.py`"), "tests/gone.py does not exist"),
        (("`tests/a.py::test_b`", "by hand"), "names no test or contract"),
        (("# 0007.", "# 0008."), "title does not start with its number"),
        (("Status: accepted", "Status: nice"), "no status line"),
        (("A choice", "A choice" + " or two" * 7), "title has more than 15 words"),
    ],
)
def test_a_faulty_record_is_found(tmp_path: Path, change: tuple[str, str], fault: str) -> None:
    """Each kind of fault is reported, and the same record without it passes."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/a.py").touch()
    path = tmp_path / "0007-a-choice.md"
    path.write_text(GOOD)
    assert faults(path, tmp_path) == []
    path.write_text(GOOD.replace(*change))
    assert faults(path, tmp_path) == [fault]
