"""Reads the numeric fields of a version's ``config.json``."""

from pathlib import Path

import msgspec


def numbers(path: Path) -> dict[str, float]:
    found = msgspec.json.decode(path.read_bytes())
    return {name: value for name, value in found.items() if isinstance(value, int | float)}
