"""Gathers what the documentation's site is made of: ``python scripts/site.py`` fills ``build/site-source``.

The site keeps the repository's layout, so that one relative link works on a code host and on the site. Every page that
README.md leads to comes along, and every file that a page links to. Needs the standard library alone.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build/site-source"
FIRST = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
FOLDERS = ("docs", "adr", "runbooks")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's relative links, anchors included; code is left out."""
    for target in _LINK.findall(_CODE.sub("", _FENCE.sub("", text))):
        if not re.match(r"[a-z][a-z+.-]*:", target):
            yield target


def target_of(page: Path, link: str) -> Path:
    """Return the file or folder that a link of this page leads to."""
    return (page.parent / link.partition("#")[0]).resolve() if not link.startswith("#") else page


def pages() -> list[Path]:
    """Return all pages of the documentation: the first ones, those of its folders, and those that they lead to."""
    found = [ROOT / name for name in FIRST]
    found += [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))]
    for page in found:  # grows while it is read
        for link in links(page.read_text()):
            path = target_of(page, link)
            if path.suffix == ".md" and path.is_file() and path not in found:
                found.append(path)
    return found


def gather() -> list[Path]:
    """Copy the pages and the files that they link to; return the pages."""
    shutil.rmtree(OUT, ignore_errors=True)
    found = pages()
    linked = {target_of(page, link) for page in found for link in links(page.read_text())}
    for path in {*found, *(path for path in linked if path.is_file())}:
        copy = OUT / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return found


if __name__ == "__main__":
    print(f"{len(gather())} pages")
