"""The folder of compiled engine code: engines run this code, so only its owner may write."""

from pathlib import Path

OWNERS_ALONE = 0o700


def own(folder: Path) -> None:
    """Private to its owner; raises ``PermissionError`` if another user owns it."""
    folder.mkdir(parents=True, exist_ok=True, mode=OWNERS_ALONE)
    folder.chmod(OWNERS_ALONE)
