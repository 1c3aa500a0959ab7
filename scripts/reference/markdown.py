"""What the generated pages have in common: their first lines, and tables."""

from collections.abc import Iterable, Sequence

_WRITTEN = "<!-- Written by `make reference` from the code; don't edit. -->"


def titled(title: str, lead: str) -> str:
    """Return the first lines of a page."""
    return f"{_WRITTEN}\n# {title}\n\n{lead}\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; line breaks and bars inside of a cell are made harmless."""
    lines = [columns, ["---"] * len(columns), *([_cell(one) for one in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    """Return a text as code; nothing for an empty one."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")
