"""Query parameters of this room's paths; all others are refused by name."""

import re
from collections.abc import Sequence

PAGES = frozenset({"after", "limit", "order"})

QUERIES: Sequence[tuple[re.Pattern[str], frozenset[str]]] = (
    (re.compile(r"/v1/jobs"), PAGES | {"state", "api", "model", "batch"}),
)
_NONE = frozenset[str]()


def known_at(path: str) -> frozenset[str]:
    return next((names for pattern, names in QUERIES if pattern.fullmatch(path)), _NONE)
