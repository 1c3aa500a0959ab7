"""`penstock logs`: the last log lines of this home's processes."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.apps.settings import Settings, load
from penstock.cli.terminal import explained, out
from penstock.domain.command_error import CommandError

Line = tuple[str, str]
"""When it was written, as far as the line says so, and itself."""


def logs(
    what: Annotated[
        str, typer.Argument(help="The process: gateway, controller, worker, engine, postgres, …", show_default="all")
    ] = "",
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="Only lines with this event, such as `breaker_turned`.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="The number of lines.")] = 10,
) -> None:
    """Print the last log lines of this home's processes, the newest at the end.

    Logs without times, such as an engine's own, are those of the file that was written last.

    For example:

    * `penstock logs gateway -e breaker_turned`

    * `penstock logs engine -n 30`
    """
    with explained():
        settings = load()
        for line in _last(_files(settings, what, event or ()), event or (), lines):
            out.print(line, markup=False, highlight=False, soft_wrap=True)


def _files(settings: Settings, what: str, events: Sequence[str]) -> list[Path]:
    """Return the logs of this home, the oldest first; ``CommandError`` names other places to look."""
    folder = settings.paths.logs
    found = sorted(folder.glob(f"{what}*.log*"), key=lambda path: path.stat().st_mtime)  # those that were cut away too
    if not found:
        words = "".join(f" -e {event}" for event in events) or " ''"
        raise CommandError(
            f"There is no log of {what or 'anything'} in {folder}.",
            do=f"Name the home in PENSTOCK_HOME; in a cluster: kubectl logs --all-containers POD | grep{words}",
        )
    return found


def _last(files: Sequence[Path], events: Sequence[str], most: int) -> list[str]:
    """Return the last lines with one of these words: lines with a time in its order, after those of one file
    without.
    """
    told: list[Line] = []
    untold: list[str] = []
    for path in files:
        found = deque(_lines(path, events), maxlen=most)
        told += [line for line in found if line[0]]
        untold = [text for at, text in found if not at] or untold
    return [*untold, *(text for _, text in sorted(told, key=lambda line: line[0]))][-most:]


def _lines(path: Path, events: Sequence[str]) -> Iterator[Line]:
    with path.open(errors="replace") as log:
        for text in log:
            if not events or any(event in text for event in events):
                yield _time_of(text), text.rstrip("\n")


def _time_of(text: str) -> str:
    """Return the time of one of our own lines; empty for other programs' lines."""
    try:
        line = json.loads(text)
    except ValueError:
        return ""
    return str(line.get("time", "")) if isinstance(line, dict) else ""
