"""Tables on the screen: wide in a terminal, and never cut off where somebody reads them with a program."""

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.cli.terminal import out

INDENT = 2


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Sequence[str] = ()) -> None:
    """Print rows under a title, or that there are none.

    What is too wide for the screen comes as one block of lines for each row, so that no name or address is cut.
    ``notes`` are one for each row, in lines below the table.
    """
    out.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
    found = [tuple(str(cell) for cell in row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(columns, *found, strict=True)]
    if found and sum(widths) + 2 * (len(widths) - 1) > out.width:
        _show_blocks(columns, found, notes)
        return
    _show_table(columns, found)
    for row, note in zip(found, notes, strict=False):
        if note:
            out.print(f"[dim]{escape(row[0])}:[/] {escape(note)}", highlight=False, soft_wrap=True)
    if any(notes):
        out.print()


def _show_blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """Print each row as its first cell and, under it, the others by name."""
    for row, note in zip_longest(rows, notes, fillvalue=""):
        out.print(escape(row[0]), highlight=False, soft_wrap=True)
        told = [f"[dim]{name}[/] {escape(cell)}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell]
        for line in filter(None, (*_filled(told), escape(note))):
            out.print(f"  {line}", highlight=False, soft_wrap=True)
    out.print()


def _filled(told: Sequence[str]) -> list[str]:
    """Return the cells in lines that fit the screen; one that doesn't fit has a line of its own."""
    lines: list[str] = []
    for cell in told:
        joined = f"{lines[-1]} · {cell}" if lines else cell
        if lines and Text.from_markup(joined).cell_len + INDENT <= out.width:
            lines[-1] = joined
        else:
            lines.append(cell)
    return lines


def _show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=False)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    if not table.row_count:
        table.add_row("[dim]none[/]")
    out.print(table)
    out.print()


def when(epoch_s: float) -> str:
    """Say a Unix time; zero means never."""
    if not epoch_s:
        return "-"
    return dt.datetime.fromtimestamp(epoch_s, tz=dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
