"""What the documentation tells people to type is there: commands, options, make targets, settings."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from penstock.cli import application
from penstock.settings import Settings
from scripts import site
from tests.support import tree

app = application()

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SETTING = re.compile(r"\bPENSTOCK_([A-Z][A-Z_]*[A-Z])\b(?!_?\*)")
PAGES = [page for page in site.pages() if page.relative_to(tree.ROOT).parts[0] in {"README.md", "docs"}]
TEXTS = {tree.place(page): page.read_text() for page in PAGES}
NO_SETTINGS = frozenset({"HOLD", "METRICS"})
"""Beginnings of settings' names, as in `PENSTOCK_HOLD_*`."""


def typed(text: str) -> Iterator[list[str]]:
    """Yield the words of each line that blocks of a page tell people to type, without variables before the program."""
    for block in (block for language, block in _BLOCK.findall(text) if language in {"", "sh"}):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            words = (
                shlex.split(line.removeprefix("$ "), comments=True) if re.search(r"\b(penstock|make) ", line) else []
            )
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words and words[0].rpartition("/")[2] in {"penstock", "make"}:
                yield words


def unknown(words: list[str], targets: set[str]) -> str:
    """Return what of a line there is not; empty if all of it is there."""
    if words[0] == "make":
        named = [word for word in words[1:] if "=" not in word]
        return ", ".join(name for name in named if name not in targets)
    command: Any = get_command(app)
    rest = words[1:]
    while rest and getattr(command, "commands", None):
        if rest[0].startswith(("-", "[")) and command.invoke_without_command:
            break
        if rest[0] not in command.commands:
            return " ".join(words)
        command = command.commands[rest.pop(0)]
    options = {"--help"}.union(*({*one.opts, *one.secondary_opts} for one in command.params))
    return ", ".join(word for word in rest if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options)


@pytest.fixture(scope="module")
def targets() -> set[str]:
    """Return the make targets that there are."""
    files = ("Makefile", "infra/infra.mk")
    return {name for file in files for name in re.findall(r"^([a-z-]+):", (tree.ROOT / file).read_text(), re.MULTILINE)}


def test_every_command_is_there(targets: set[str]) -> None:
    """Each `penstock` and `make` line of README and docs is a real command with options that it has."""
    lines = [(name, words) for name, text in TEXTS.items() for words in typed(text)]
    assert lines
    assert [(name, words) for name, words in lines if unknown(words, targets)] == []


def test_every_setting_is_there() -> None:
    """Each `PENSTOCK_` name of README and docs is a setting."""
    known = {name.upper() for name in Settings.model_fields} | NO_SETTINGS
    found = {(name, setting) for name, text in TEXTS.items() for setting in _SETTING.findall(text)}
    assert sorted(one for one in found if one[1] not in known) == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("make serve", ""),
        ("make sevre", "sevre"),
        ("penstock keys create shop --role auditor", ""),
        ("penstock keys make shop", "penstock keys make shop"),
        ("A=1 penstock up --tsl", "--tsl"),
    ],
)
def test_a_command_that_is_not_there_is_found(targets: set[str], line: str, missing: str) -> None:
    """A misspelt target, command or option is reported."""
    (words,) = typed(f"```sh\n{line}\n```\n")
    assert unknown(words, targets) == missing
