"""Reads the numbers of a version's ``config.json``."""

from pathlib import Path

import msgspec


def numbers(path: Path) -> dict[str, float]:
    """Return the fields that are numbers."""
    found = msgspec.json.decode(path.read_bytes())
    return {name: value for name, value in found.items() if isinstance(value, int | float)}
