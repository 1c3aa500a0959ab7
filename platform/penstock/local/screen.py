"""The screen of a start: numbered phases with their times; without a terminal, plain lines for a log."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.markup import escape

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError

TAIL_LINES = 15
PLAIN_EVERY_S = 2.0
"""Seconds between lines of a phase without a terminal."""


class Note(Protocol):
    def __call__(self, text: str) -> None: ...


@dataclass(slots=True)
class Said:
    texts: set[str] = field(default_factory=set)
    at: float = float("-inf")


class Phase:
    def __init__(self, note: Note) -> None:
        self.note = note
        self.outcome = ""

    def result(self, text: str) -> None:
        self.outcome = text


class Screen:
    def __init__(self, console: Console, clock: Clock, phases: int, logs: Path | None = None) -> None:
        self._console = console
        self._former = {log: log.stat().st_size for log in logs.glob("*.log")} if logs else {}
        """The bytes that runs before this one have written."""
        self._clock = clock
        self._phases = phases
        self._number = 0

    @contextmanager
    def phase(self, title: str) -> Iterator[Phase]:
        self._number += 1
        head = f"[{self._number}/{self._phases}] {title}"
        began = self._clock.monotonic()
        with self._spinning(head) as note:
            phase = Phase(note)
            yield phase
        seconds = self._clock.monotonic() - began
        self._line(f"[green]✓[/] {escape(head):<28} [bold]{seconds:6.1f} s[/]  [dim]{escape(phase.outcome)}[/]")

    @contextmanager
    def _spinning(self, head: str) -> Iterator[Note]:
        if self._console.is_terminal:
            with self._console.status(escape(head)) as status:
                yield lambda text: status.update(f"{escape(head)}  [dim]{escape(text)}[/]")
            return
        said = Said()
        yield lambda text: self._now_and_then(text, said)

    def _now_and_then(self, text: str, said: Said) -> None:
        now = self._clock.monotonic()
        if text in said.texts or now - said.at < PLAIN_EVERY_S:
            return
        said.texts.add(text)
        said.at = now
        for line in text.splitlines():
            self._line(f"    {escape(line)}")

    def say(self, text: str = "") -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def write(self, text: str) -> None:
        self._console.print(text, end="", markup=False, highlight=False, soft_wrap=True)

    def error(self, error: CommandError) -> None:
        show_error(self._console, error, since=self._former.get(error.log, 0) if error.log else 0)

    def _line(self, markup: str) -> None:
        self._console.print(markup, highlight=False, soft_wrap=True)


def show_error(console: Console, error: CommandError, *, since: int = 0) -> None:
    """Show the end of its log; ``since`` is the first byte of this run's lines."""
    console.print(f"[bold red]✗[/] {escape(error.what)}", highlight=False, soft_wrap=True)
    for line in tail(error.log, since) if error.log is not None else []:
        console.print(f"  [dim]│ {escape(line)}[/]", highlight=False, soft_wrap=True)
    if error.log is not None:
        console.print(f"  Log: {escape(str(error.log))}", highlight=False, soft_wrap=True)
    if error.do:
        console.print(f"  → {escape(error.do)}", highlight=False, soft_wrap=True)


def tail(log: Path, since: int = 0, lines: int = TAIL_LINES) -> list[str]:
    try:
        with log.open(errors="replace") as file:
            file.seek(since if since <= log.stat().st_size else 0)  # shorter: it was cut meanwhile
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    except OSError:
        return []
