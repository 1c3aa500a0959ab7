"""Named queries: The SQL is in ``queries/<file>.sql`` under a line ``-- name: <name>``."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "queries"
_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def load(file: str) -> Mapping[str, str]:
    _, *parts = _HEAD.split((_FOLDER / f"{file}.sql").read_text())
    names, texts = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{file}.sql has two queries of one name")
    return dict(zip(names, (text.strip() for text in texts), strict=True))
