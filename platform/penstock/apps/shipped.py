"""Data files that belong to the repository and travel in the wheel: found in either place."""

from pathlib import Path

import penstock
from penstock.domain.command_error import CommandError

_PACKAGE = Path(penstock.__file__).parent
_REPOSITORY = _PACKAGE.parents[1]


def shipped(in_wheel: str, in_repository: str) -> Path:
    """Return the file or folder: the installed copy, or the repository's own where penstock runs from a checkout."""
    for path in (_PACKAGE / in_wheel, _REPOSITORY / in_repository):
        if path.exists():
            return path
    raise CommandError(
        f"This installation lacks {in_wheel}.", do="Install penstock again, from its wheel or a checkout."
    )
