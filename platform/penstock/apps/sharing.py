"""Limits that one process counts hold only while it is the only gateway: several need a store that they share.

A supervisor replaces its one gateway by starting the next beside it, and the old one takes no more requests: those
two may be there together.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.apps.settings import Settings
from penstock.domain.command_error import CommandError

FILE = "limits.lock"
REMEDY = "Name the Redis or Valkey that they share in PENSTOCK_LIMITS_URL, or run one gateway (PENSTOCK_GATEWAYS=1)."


def check_shared(settings: Settings) -> None:
    """Raise ``CommandError`` where each of several gateways would give every limit and budget whole."""
    if settings.gateways > 1 and not settings.limits_url:
        raise CommandError(
            f"Without a shared store each of {settings.gateways} gateways gives every limit and budget whole:"
            f" {settings.gateways} times what was agreed.",
            do=REMEDY,
        )


@contextmanager
def limits_of_this_home(settings: Settings, *, is_supervised: bool) -> Iterator[None]:
    """Keep other gateways out of this home while its limits are counted in this process."""
    check_shared(settings)
    if settings.limits_url:
        yield
        return
    folder = settings.paths.run / "gateway"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(fd, settings, fcntl.LOCK_SH if is_supervised else fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _take(fd: int, settings: Settings, how: int) -> None:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CommandError(
            f"Another gateway of {settings.paths.root} counts limits and budgets: with two, both would be given twice.",
            do=REMEDY,
        ) from error
