"""A secret in a file, and its predecessor in ``<file>.previous``: both are valid during rotation.

Kubernetes mounts secrets group-readable (0440) behind a symbolic link, so the link's target is checked. A
world-readable file is refused: its secret counts as known.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from penstock.domain.command_error import CommandError

PREVIOUS = ".previous"
HIDDEN = "***"
MIN_KEY_BYTES = 32
LOOK_EVERY_S = 5.0
_MAKE = f"Put {MIN_KEY_BYTES} random bytes as hex into it: openssl rand -hex {MIN_KEY_BYTES}"

T = TypeVar("T")
Stamp = tuple[int, ...]


def text(file: Path, what: str, *, do: str = "", secret: bool = True) -> str:
    """Return the file's text; raises ``CommandError``, with ``do`` as the remedy for a missing file."""
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
    """Return whether a setting's value is a path: it exists or its folder does. A base64 key may contain slashes."""
    if os.path.exists(file):  # noqa: PTH110  Path's own raises where the name is too long for one
        return True
    top = file.parts[: 2 if file.is_absolute() else 1]
    return len(file.parts) > len(top) and os.path.isdir(Path(*top))  # noqa: PTH112  as above


def key(file: Path, what: str, *, do: str = "") -> bytes:
    try:
        found = bytes.fromhex(text(file, what, do=do))
    except ValueError as error:
        raise CommandError(f"The {what} in {file} is no hex.", do=f"{_MAKE} > {file.name}.") from error
    if len(found) < MIN_KEY_BYTES:
        raise CommandError(f"The {what} in {file} is only {len(found)} bytes long.", do=f"{_MAKE} > {file.name}.")
    return found


def previous(file: Path) -> Path:
    return file.with_name(file.name + PREVIOUS)


def with_previous(file: Path, read: Callable[[Path], T]) -> tuple[T, ...]:
    before = previous(file)
    return (read(file), read(before)) if before.exists() else (read(file),)


def stamp(file: Path) -> Stamp:
    """Return a value that changes with the file or the previous one; empty parts for missing files."""
    found: Stamp = ()
    for one in (file, previous(file)):
        try:
            now = one.stat()
        except OSError:
            found += (0,)
        else:
            found += (now.st_ino, now.st_mtime_ns, now.st_size)
    return found


async def changes(files: Sequence[Path]) -> AsyncIterator[None]:
    """Yield after each change of the files or their previous ones."""
    seen = tuple(map(stamp, files))
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now = tuple(map(stamp, files))
        if now != seen:
            seen = now
            yield


def _why(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is no text"
