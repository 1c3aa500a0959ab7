"""The design review: what it names exists, and each point has its parts."""

import re
from pathlib import Path

import pytest

from tests.architecture.test_adr import named_paths
from tests.support import tree

REVIEW = tree.ROOT / "docs/design-review"
POINTS = sorted(REVIEW.glob("[0-9][0-9]-*.md"))
PARTS = ["The usual mistake", "Our position", "The price"]
ANSWERED = ["Decisions", "Code", "Shown by"]


def gone(page: Path, root: Path) -> list[str]:
    """Return the paths in backticks and the targets of links that don't exist."""
    text = page.read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [name for name in named_paths(text) if is_path(name, root) and not (root / name).exists()]
    return missing + [target for target in links if not (page.parent / target).exists()]


def is_path(name: str, root: Path) -> bool:
    """Tell a path of this repository from a route or a formula: it begins with the name of something at its top."""
    return (root / name.partition("/")[0]).exists() and not name.startswith("/")


@pytest.mark.parametrize("page", sorted(REVIEW.glob("*.md")), ids=lambda page: page.stem)
def test_what_a_page_names_exists(page: Path) -> None:
    """Code, tests, decision records and pages that the review names are there."""
    assert gone(page, tree.ROOT) == []


@pytest.mark.parametrize("page", POINTS[:-1], ids=lambda page: page.stem)
def test_a_point_has_its_parts(page: Path) -> None:
    """A point tells the usual mistake, our position and its price, then decisions, code and what shows it."""
    text = page.read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [name for name in headings if name in PARTS] in (PARTS, PARTS[:2])
    assert re.findall(r"^\| (Decisions|Code|Shown by) \|", text, re.MULTILINE) == ANSWERED
    assert "The price" in headings or "Not answered yet" in headings


def test_the_index_has_every_page() -> None:
    """The review's first page leads to each of the others."""
    index = (REVIEW / "README.md").read_text()
    assert [page.name for page in sorted(REVIEW.glob("*.md")) if f"({page.name})" not in index] == ["README.md"]


def test_a_page_with_a_lost_path_is_found(tmp_path: Path) -> None:
    """A path, a test and a link that are gone are told; routes and formulas are none."""
    (tmp_path / "docs/design-review").mkdir(parents=True)
    page = tmp_path / "docs/design-review/01-a.md"
    page.write_text(
        "`docs/gone.py` `docs/design-review/01-a.md::test` `/v1/x` `a/b` [x](gone.md) [y](01-a.md#z) [z](https://x)"
    )
    assert gone(page, tmp_path) == ["docs/gone.py", "gone.md"]
