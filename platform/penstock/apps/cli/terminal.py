"""The terminal: consoles, and the end of a command that can't go on."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from penstock.domain.command_error import CommandError

out = Console()
err = Console(stderr=True)


@contextmanager
def explained() -> Iterator[None]:
    """Turn ``CommandError`` and bad settings into words and exit code 1, without a traceback."""
    from pydantic import ValidationError

    from penstock.apps.up.screen import show_error

    try:
        yield
    except CommandError as error:
        show_error(err, error)
        raise typer.Exit(1) from error
    except ValidationError as error:
        show_error(err, _of_settings(str(error)))
        raise typer.Exit(1) from error


def _of_settings(details: str) -> CommandError:
    return CommandError(
        f"A setting is not valid: {details}",
        do="Correct the PENSTOCK_* variable or the home's settings.yaml; `penstock config` prints all settings.",
    )
