"""Links of the documentation lead somewhere, on a code host and on the site alike."""

import re
from pathlib import Path

import pytest

from scripts import site
from tests.support import tree

PAGES = site.pages()
README_BYTES = 7_000


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(
        r"^#{1,6} +(.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one).lower()) for one in headings]
    return {one.strip().replace(" ", "-") for one in plain}


def broken(page: Path) -> list[str]:
    """Return a page's links that lead nowhere, or to a folder, which a site can't show."""
    found = []
    for link in site.links(page.read_text()):
        target, anchor = site.target_of(page, link), link.partition("#")[2]
        if not target.is_file():
            found.append(f"{tree.place(page)}: {link}: {'a folder' if target.is_dir() else 'no such file'}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            found.append(f"{tree.place(page)}: {link}: no such heading")
    return found


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    """Each relative link of the documentation leads to a file that is there, and its anchor to a heading."""
    assert [one for page in PAGES for one in broken(page)] == []


def test_every_page_is_led_to() -> None:
    """Each page of docs, adr and runbooks is linked from another page."""
    linked = {site.target_of(page, link) for page in PAGES for link in site.links(page.read_text())}
    unlinked = [page for page in PAGES if page not in linked and page.name != "template.md"]
    assert [tree.place(page) for page in unlinked if page.relative_to(tree.ROOT).parts[0] in site.FOLDERS] == []


def test_the_sites_contents_are_pages_that_there_are() -> None:
    """Each page that mkdocs.yml lists is there."""
    listed = re.findall(r"[\w/.-]+\.md$", (tree.ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert listed
    assert [name for name in listed if not (tree.ROOT / name).is_file()] == []


def test_the_first_page_is_short() -> None:
    """README.md has at most seven thousand bytes."""
    assert (tree.ROOT / "README.md").stat().st_size <= README_BYTES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](other.md)", []),
        ("[a](other.md#a-title-of-two)", []),
        ("[a](#here)\n# Here\n", []),
        ("`[a](none.md)`", []),
        ("```\n[a](none.md)\n```\n", []),
        ("[a](https://example.com/x)", []),
        ("[a](none.md)", ["page.md: none.md: no such file"]),
        ("[a](folder)", ["page.md: folder: a folder"]),
        ("[a](other.md#none)", ["page.md: other.md#none: no such heading"]),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, text: str, found: list[str]) -> None:
    """A link to no file, to a folder or to no heading is reported, and code is left alone."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "other.md").write_text("# A title, of two\n")
    (tmp_path / "page.md").write_text(text)
    assert broken(tmp_path / "page.md") == found
