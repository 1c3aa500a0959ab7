"""Turns errors of model preparation into messages for the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused, StoreUnavailable


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turn refusals, unreachable stores and full disks into ``CommandError``; ``what`` names model or source."""
    try:
        yield
    except ArtifactRefused as error:
        raise CommandError(f"{what} can't be served: {error.message}.") from error
    except StoreUnavailable as error:
        raise CommandError(f"{what} could not be stored: {error.message}.") from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise CommandError(
            f"{what} could not be prepared: {error.strerror or error}{where}.",
            do="Free some space, or put PENSTOCK_HOME on a disk that can be written.",
        ) from error
