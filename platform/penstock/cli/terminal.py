"""The terminal: its consoles, and the end of a command that fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from penstock.domain.command_error import CommandError

if TYPE_CHECKING:
    from pydantic import ValidationError

out = Console()
err = Console(stderr=True)


@contextmanager
def explained() -> Iterator[None]:
    """Print ``CommandError`` and bad settings as a sentence with exit code 1, without a traceback."""
    from pydantic import ValidationError

    from penstock.local.screen import show_error

    try:
        yield
    except CommandError as error:
        show_error(err, error)
        raise typer.Exit(1) from error
    except ValidationError as error:
        show_error(err, _of_settings(error))
        raise typer.Exit(1) from error
    except OSError as error:
        if error.filename is None:  # of no file: nobody's disk or home
            raise
        show_error(err, _of_files(error))
        raise typer.Exit(1) from error


def _of_files(error: OSError) -> CommandError:
    return CommandError(
        f"Can't use {error.filename}: {error.strerror}.",
        do="Free some space, or set PENSTOCK_HOME to a folder that may be written.",
    )


def _of_settings(error: "ValidationError") -> CommandError:
    """Name the settings and their faults, never their values: some hold passwords."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    names = [f"PENSTOCK_{'_'.join(map(str, one['loc'])).upper()}: {one['msg']}" for one in found]
    return CommandError(
        f"A setting is not valid: {'; '.join(names)}.",
        do="Correct the PENSTOCK_* variable or the home's settings.yaml; `penstock config` prints all settings.",
    )
