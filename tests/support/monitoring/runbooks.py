"""Runbooks as data: their sections, the commands and queries that they tell a person to use."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import cast

import click
import typer

from penstock.cli import application
from tests.support import tree

app = application()

FOLDER = tree.ROOT / "runbooks"
SECTIONS = ("Meaning", "Impact", "Diagnosis", "Mitigation", "Verify")
MOST_LINES = 60
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_SHELL = frozenset({"|", "&&", ";", ">"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """One file, by the name of its alert."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def sections(self) -> dict[str, str]:
        """Each section's text by its heading, in order."""
        parts = re.split(r"^## (.+)$", self.text, flags=re.MULTILINE)[1:]
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def queries(self, section: str = "") -> list[str]:
        """Return its PromQL, one query a line; of one section or of all."""
        return list(_fenced(self.sections[section] if section else self.text, "promql"))

    def shell(self, section: str = "") -> list[str]:
        return list(_fenced(self.sections[section] if section else self.text, "sh"))

    @property
    def commands(self) -> list[list[str]]:
        """Return every ``penstock`` command that it names, in blocks and between words, as arguments."""
        inline = (text for text in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", self.text) if text.startswith("penstock "))
        return [_of_penstock(line) for line in (*self.shell(), *inline) if line.startswith("penstock ")]

    @property
    def events(self) -> list[str]:
        """Return the log events that it looks for, or their beginnings."""
        lines = [shlex.split(line) for line in self.shell() if line.startswith("penstock logs")]
        return [word for words in lines for option, word in pairwise(words) if option == "-e"]


@cache
def every() -> tuple[Runbook, ...]:
    return tuple(Runbook(path=path, text=path.read_text()) for path in sorted(FOLDER.glob("*.md")))


def of(alert: str) -> Runbook:
    return next(book for book in every() if book.name == alert)


def fault(arguments: list[str]) -> str:
    """Return the real command line's objection to a ``penstock`` command; empty if it takes the command."""
    command, name = cast("click.Command", typer.main.get_command(app)), "penstock"
    rest = arguments[1:]
    while inner := getattr(command, "commands", None):
        is_alone = command.invoke_without_command and (not rest or rest[0].startswith("-"))  # type: ignore[attr-defined]
        if is_alone:
            break
        if not rest or rest[0] not in inner:
            return f"{name} has no command {rest[:1]}"
        name, command, rest = rest[0], inner[rest[0]], rest[1:]
    try:
        command.make_context(name, rest).close()
    except typer.exceptions.TyperException as error:
        return str(error)
    return ""


def _fenced(text: str, language: str) -> Iterator[str]:
    for found, block in _FENCE.findall(text):
        if found == language:
            yield from filter(None, block.splitlines())


def _of_penstock(line: str) -> list[str]:
    """Return the command's own arguments, without what a shell does with its output; ``N`` stands for a number."""
    words = shlex.split(re.sub(r"\bN\b", "1", line))
    end = next((i for i, word in enumerate(words) if word in _SHELL), len(words))
    return words[:end]
