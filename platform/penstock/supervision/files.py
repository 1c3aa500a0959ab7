"""Files that the processes of one home exchange: private to their owner."""

import os
from pathlib import Path

from penstock.domain.command_error import CommandError
from penstock.files.whole import appearing


def keep_private() -> None:
    """Set a umask that keeps all files of this process and its children private to their owner."""
    os.umask(0o077)


def unwritable(root: Path, error: OSError) -> CommandError:
    return CommandError(
        f"Can't write to {root}: {error.strerror}.",
        do="Free some space or set PENSTOCK_HOME to a folder that may be written.",
    )


def read_if_there(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def write_private(path: Path, text: str) -> None:
    with appearing(path) as file:
        file.write(f"{text}\n".encode())


def ready_file(run: Path, pid: int) -> Path:
    """Return the path of the file that marks a gateway as ready: on a shared socket, a probe could reach another
    gateway.
    """
    return run / "gateway" / f"{pid}.ready"
