"""The folder of what engines compile: other engines will run what lies there, so nobody else may write to it."""

from pathlib import Path

OWNERS_ALONE = 0o700


def own(folder: Path) -> None:
    """Make the folder and close it to others; raises ``PermissionError`` where it is somebody else's."""
    folder.mkdir(parents=True, exist_ok=True, mode=OWNERS_ALONE)
    folder.chmod(OWNERS_ALONE)
