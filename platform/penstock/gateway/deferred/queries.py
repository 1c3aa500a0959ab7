"""Query parameters of this room's GET routes; all others are refused by name."""

import re
from collections.abc import Sequence

PAGES = frozenset({"after", "limit", "order"})

INCLUDED = frozenset({"include", "include[]"})

QUERIES: Sequence[tuple[re.Pattern[str], frozenset[str]]] = (
    (re.compile(r"/v1/files"), PAGES | {"purpose"}),
    (re.compile(r"/v1/batches"), PAGES),
    (re.compile(r"/v1/jobs"), PAGES | {"state", "model"}),
    (re.compile(r"/v1/webhooks/[^/]+/deliveries"), PAGES | {"state"}),
    (re.compile(r"/v1/responses/[^/]+"), INCLUDED | {"stream", "starting_after", "include_obfuscation"}),
    (re.compile(r"/v1/responses/[^/]+/input_items"), PAGES | INCLUDED),
)
_NONE = frozenset[str]()


def known_at(path: str) -> frozenset[str]:
    return next((names for pattern, names in QUERIES if pattern.fullmatch(path)), _NONE)
