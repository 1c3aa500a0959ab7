"""`penstock logs`: the last log lines of this home's processes."""

import datetime as dt
import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments import length
from penstock.cli.terminal import out
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.settings import Settings, load

Line = tuple[str, str]
"""A log line and its time, if it contains one."""
LEVELS = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """The lines to show; other programs' lines have no level, time or request."""

    events: tuple[str, ...] = ()
    level: str = ""
    after: str = ""
    request: str = ""

    def takes(self, line: Mapping[str, object]) -> bool:
        if self.level and _rank(line.get("level")) < LEVELS.index(self.level):
            return False
        if self.after and str(line.get("time", "")) < self.after:
            return False
        return not self.request or line.get("request_id") == self.request


def _rank(level: object) -> int:
    return LEVELS.index(str(level)) if level in LEVELS else -1


def logs(
    what: Annotated[
        str, typer.Argument(help="The process: gateway, controller, worker, engine, postgres, …", show_default="all")
    ] = "",
    event: Annotated[
        list[str] | None, typer.Option("--event", "-e", help="Only lines with this event, such as `breaker_turned`.")
    ] = None,
    level: Annotated[
        str, typer.Option(help="Only lines of this level or above: info, warning, error.", show_default="all")
    ] = "",
    since: Annotated[
        str, typer.Option(help="Only lines of this length of time: 90s, 5m, 1h.", show_default="all")
    ] = "",
    request: Annotated[str, typer.Option(help="Only lines of the request with this id.", show_default="all")] = "",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=10_000, help="The number of lines.")] = 10,
) -> None:
    """Print the last log lines of this home's processes, the newest at the end.

    Logs without times, such as an engine's own, are those of the file that was written last.

    For example:

    * `penstock logs gateway -e breaker_turned`

    * `penstock logs engine -n 30`

    * `penstock logs --level warning --since 10m`
    """
    settings = load()
    if level and level not in LEVELS:
        raise CommandError(f"There is no level {level!r}.", do=f"Give one of {', '.join(LEVELS)}.")
    after = moment_before(SystemClock().now(), length(since)) if since else ""
    wanted = LineFilter(events=tuple(event or ()), level=level, after=after, request=request)
    for line in _last(_files(settings, what, event or ()), wanted, lines):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def moment_before(now: float, seconds: float) -> str:
    return dt.datetime.fromtimestamp(now - seconds, tz=dt.UTC).isoformat().removesuffix("+00:00")


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


def _last(files: Sequence[Path], wanted: LineFilter, most: int) -> list[str]:
    """Return the last wanted lines: lines with a time in its order, after those of one file without."""
    told: list[Line] = []
    untold: list[str] = []
    for path in files:
        found = deque(_lines(path, wanted), maxlen=most)
        told += [line for line in found if line[0]]
        untold = [text for at, text in found if not at] or untold
    return [*untold, *(text for _, text in sorted(told, key=lambda line: line[0]))][-most:]


def _lines(path: Path, wanted: LineFilter) -> Iterator[Line]:
    with path.open(errors="replace") as log:
        for text in log:
            if wanted.events and not any(event in text for event in wanted.events):
                continue
            line = _of_ours(text)
            if wanted.takes(line):
                yield str(line.get("time", "")), text.rstrip("\n")


def _of_ours(text: str) -> dict[str, object]:
    try:
        line = json.loads(text)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
