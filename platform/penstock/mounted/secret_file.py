"""A secret in a file, and the one before it in ``<file>.previous``: both are valid while one takes the other's place.

Kubernetes mounts secrets readable for a group (0440) and exchanges them by a symbolic link, so it is the target that
counts. A file that anybody may read is refused: what is in it must be taken for known.
A secret that was given in place of its path is not said again: only what looks like a path is shown.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from penstock.domain.command_error import CommandError

PREVIOUS = ".previous"
HIDDEN = "***"
MIN_KEY_BYTES = 32
_MAKE = f"Put {MIN_KEY_BYTES} random bytes as hex into it: openssl rand -hex {MIN_KEY_BYTES}"

T = TypeVar("T")
Stamp = tuple[int, ...]


def text(file: Path, what: str, *, do: str = "", secret: bool = True) -> str:
    """Return what the file holds, or raise ``CommandError`` that names the remedy; ``do`` is that of a missing one."""
    remedy = do or "Mount the file, or correct its name."
    try:
        mode, content = file.stat().st_mode, file.read_text().strip()
    except (OSError, ValueError) as error:
        if not is_path(file):  # no cause: its words hold the value
            raise CommandError(
                f"There is no {what}: its setting names no file.",
                do=f"It takes a path, not the secret itself. {remedy}",
            ) from None
        if isinstance(error, FileNotFoundError):
            raise CommandError(f"There is no {what} at {file}.", do=remedy) from error
        raise CommandError(f"The {what} in {file} can't be read: {_why(error)}.", do=remedy) from error
    if secret and mode & stat.S_IRWXO:
        raise CommandError(
            f"The {what} in {file} is open to everybody (mode {stat.S_IMODE(mode):04o}).",
            do="Close it (chmod o-rwx; in Kubernetes defaultMode: 0440), and use another secret if others were there.",
        )
    if not content:
        raise CommandError(f"The {what} in {file} is empty.", do=remedy)
    return content


def is_path(file: Path) -> bool:
    """Tell whether this is meant as a path: it is there, or begins in a folder that is; a base64 key has slashes."""
    if os.path.exists(file):  # noqa: PTH110  Path's own raises where the name is too long for one
        return True
    top = file.parts[: 2 if file.is_absolute() else 1]
    return len(file.parts) > len(top) and os.path.isdir(Path(*top))  # noqa: PTH112  as above


def key(file: Path, what: str, *, do: str = "") -> bytes:
    """Return the file's key, which is hex, or raise like ``text``."""
    try:
        found = bytes.fromhex(text(file, what, do=do))
    except ValueError as error:
        raise CommandError(f"The {what} in {file} is no hex.", do=f"{_MAKE} > {file.name}.") from error
    if len(found) < MIN_KEY_BYTES:
        raise CommandError(f"The {what} in {file} is only {len(found)} bytes long.", do=f"{_MAKE} > {file.name}.")
    return found


def previous(file: Path) -> Path:
    """Return where the secret before this one is, while it is still valid."""
    return file.with_name(file.name + PREVIOUS)


def with_previous(file: Path, read: Callable[[Path], T]) -> tuple[T, ...]:
    """Return what ``read`` makes of the file, and of the one before it where there is one; raises like ``read``."""
    before = previous(file)
    return (read(file), read(before)) if before.exists() else (read(file),)


def stamp(file: Path) -> Stamp:
    """Return what changes when the file, or the one before it, is another; empty for what is not there."""
    found: Stamp = ()
    for one in (file, previous(file)):
        try:
            now = one.stat()
        except OSError:
            found += (0,)
        else:
            found += (now.st_ino, now.st_mtime_ns, now.st_size)
    return found


def _why(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is no text"
