"""The changelog: short entries by area, and a release for the version that the package tells."""

import re
import statistics

from penstock import __version__
from tests.support import tree

ENTRY_WORDS = 25
MEDIAN_WORDS = 15

CHANGELOG = (tree.ROOT / "CHANGELOG.md").read_text()


def entries(text: str) -> list[str]:
    """Return the entries of a changelog, each as one line."""
    return [" ".join(entry.split()) for entry in re.findall(r"^- (.+(?:\n  .+)*)", text, re.MULTILINE)]


def test_an_entry_is_read_whole() -> None:
    """An entry goes on in indented lines, and ends before the next entry, heading or blank line."""
    assert entries("## [1]\n\n- One\n  goes on.\n- Two.\n\n### Area\n\n- Three.\n") == [
        "One goes on.",
        "Two.",
        "Three.",
    ]


def test_entries_are_short() -> None:
    """No entry has more than 25 words, and half of them at most 15: measurements and history stand elsewhere."""
    long = [entry for entry in entries(CHANGELOG) if len(entry.split()) > ENTRY_WORDS]
    assert long == []
    assert statistics.median(len(entry.split()) for entry in entries(CHANGELOG)) <= MEDIAN_WORDS


def test_the_newest_release_is_the_packages_version() -> None:
    """Unreleased changes come first, then the release that `penstock.__version__` names, with its date."""
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", CHANGELOG, re.MULTILINE)
    assert [name for name, _ in headings[:2]] == ["Unreleased", __version__]
    assert all(date for _, date in headings[1:])
