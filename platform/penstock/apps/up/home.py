"""The home folder: made private, with the platform's one secret. Everything else is derived from it or found in it."""

import os
import secrets
from pathlib import Path

from penstock.apps.settings import Home
from penstock.apps.trouble import Trouble

PLATFORM_KEY_BYTES = 32


def prepare(home: Home) -> bool:
    """Make the folders and the platform's key where they are missing; tell whether this home is new."""
    try:
        home.root.mkdir(parents=True, exist_ok=True)
        for folder in (home.run, home.logs, home.artifacts, home.cache):
            folder.mkdir(exist_ok=True, mode=0o700)
        is_new = not home.platform_key.exists()
        if is_new:
            write_private(home.platform_key, secrets.token_hex(PLATFORM_KEY_BYTES))
    except OSError as error:
        raise unwritable(home.root, error) from error
    return is_new


def unwritable(root: Path, error: OSError) -> Trouble:
    """Return what to tell where this home can't be written to."""
    return Trouble(
        f"Can't write to {root}: {error.strerror}.",
        do="Free some space or set PENSTOCK_HOME to a folder that may be written.",
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; it is whole or not there, whenever we die."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
