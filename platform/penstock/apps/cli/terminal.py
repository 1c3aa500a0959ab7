"""The terminal: consoles, and the end of a command that can't go on."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from penstock.apps.trouble import Trouble

out = Console()
err = Console(stderr=True)


@contextmanager
def explained() -> Iterator[None]:
    """Turn ``Trouble`` and bad settings into words and exit code 1, without a traceback."""
    from pydantic import ValidationError

    from penstock.apps.up.screen import show_trouble

    try:
        yield
    except Trouble as trouble:
        show_trouble(err, trouble)
        raise typer.Exit(1) from trouble
    except ValidationError as error:
        show_trouble(err, _of_settings(str(error)))
        raise typer.Exit(1) from error


def _of_settings(details: str) -> Trouble:
    return Trouble(
        f"A setting is not valid: {details}",
        do="Correct the PENSTOCK_* variable or the home's settings.yaml; `penstock config` prints all settings.",
    )
