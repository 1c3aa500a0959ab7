"""Every command of the command line, by its words."""

from collections.abc import Iterator
from typing import cast

import click
import typer

from penstock.cli import application

app = application()


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, child in inner.items():
        yield from _commands(child, (*path, name))


ALL = dict(_commands(cast("click.Command", typer.main.get_command(app))))
