"""Tables on the screen: wide in a terminal, and never cut off where somebody reads them with a program."""

import datetime as dt
from collections.abc import Iterable, Sequence

from rich.markup import escape
from rich.table import Table

from penstock.apps.cli.terminal import out


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a title, or that there are none."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=False)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    if not table.row_count:
        table.add_row("[dim]none[/]")
    out.print(table)
    out.print()


def when(epoch_s: float) -> str:
    """Say a Unix time; zero means never."""
    if not epoch_s:
        return "-"
    return dt.datetime.fromtimestamp(epoch_s, tz=dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
