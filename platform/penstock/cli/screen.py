"""Prints views: wide in a terminal, and never truncated if a program reads the output."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat

from rich.table import Table
from rich.text import Text

from penstock.cli.terminal import out, tell_json
from penstock.views.elements import Line, Listing, Shown, Style

INDENT = 2
_LOOKS = {
    Style.PLAIN: "",
    Style.STRONG: "bold",
    Style.MUTED: "dim",
    Style.GOOD: "bold green",
    Style.BAD: "bold red",
    Style.UNSURE: "bold yellow",
    Style.COMMAND: "cyan",
}


def show(*found: Shown | Iterable[Shown]) -> None:
    """Print lines and listings.

    A listing that is too wide for the screen comes as one block of lines for each row, so that no name or address is
    cut. Notes are printed in lines below the table.
    """
    for one in found:
        if isinstance(one, Line):
            text = Text.assemble(*((text, _LOOKS[style]) for text, style in one.parts))
            out.print(text, highlight=False, soft_wrap=not one.is_prose)
        elif isinstance(one, Listing):
            _show_listing(one)
        else:
            show(*one)


def tell(found: object, view: Callable[[], Shown | Iterable[Shown]], *, as_json: bool) -> None:
    """Print an answer of the operators' API as JSON, or as its view."""
    if as_json:
        tell_json(found)
    else:
        show(view())


def _print(*parts: tuple[str, str]) -> None:
    out.print(Text.assemble(*parts), highlight=False, soft_wrap=True)


def _show_listing(found: Listing) -> None:
    _print((found.title, "bold"))
    widths = [max(len(cell) for cell in column) for column in zip(found.columns, *found.rows, strict=True)]
    if found.rows and sum(widths) + 2 * (len(widths) - 1) > out.width:
        _show_blocks(found)
        return
    _show_table(found)
    for row, note in zip(found.rows, found.notes, strict=False):
        if note:
            _print((f"{row[0]}:", "dim"), (f" {note}", ""))
    if any(found.notes):
        out.print()


def _show_blocks(found: Listing) -> None:
    """Print each row as its first cell and, under it, the others by name."""
    for row, note in zip(found.rows, chain(found.notes, repeat("")), strict=False):
        _print((row[0], ""))
        cells = [
            Text.assemble((name, "dim"), f" {cell}")
            for name, cell in zip(found.columns[1:], row[1:], strict=True)
            if cell
        ]
        for line in (*_filled(cells), *([Text(note)] if note else [])):
            out.print(Text.assemble("  ", line), highlight=False, soft_wrap=True)
    out.print()


def _filled(cells: Sequence[Text]) -> list[Text]:
    """Return the cells in lines that fit the screen; a cell that doesn't fit has a line of its own."""
    lines: list[Text] = []
    for cell in cells:
        joined = Text.assemble(lines[-1], " · ", cell) if lines else cell
        if lines and joined.cell_len + INDENT <= out.width:
            lines[-1] = joined
        else:
            lines.append(cell)
    return lines


def _show_table(found: Listing) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in found.columns:
        table.add_column(column, overflow="fold", no_wrap=False)
    for row in found.rows:
        table.add_row(*map(Text, row))
    if not table.row_count:
        table.add_row(Text("none", "dim"))
    out.print(table)
    out.print()
