"""Lists of models as Anthropic's SDKs read them: the same names and cards, for requests with ``anthropic-version``."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from penstock.domain.errors import InvalidField
from penstock.gateway.openai.head import ANTHROPIC_VERSION
from penstock.intake.types import Headers

Json = dict[str, object]
PAGE, MOST_PAGE = 20, 1000
"""Models on a page: the number without ``limit``, and the largest ``limit`` (Anthropic's documentation, 2026-11)."""
LIFECYCLES = ("active", "deprecated", "retired")


def is_asked(headers: Headers) -> bool:
    return any(name == ANTHROPIC_VERSION for name, _ in headers)


def info(card: Mapping[str, object]) -> Json:
    made = datetime.fromtimestamp(int(str(card["created"])), UTC)
    return {
        "type": "model",
        "id": card["id"],
        "display_name": card["id"],
        "created_at": made.isoformat().replace("+00:00", "Z"),
        "lifecycle": LIFECYCLES[0],
        "max_input_tokens": card["max_model_len"],
        "training_use": card["training_use"],
    }


def page(cards: Sequence[Mapping[str, object]], query: Mapping[str, str], lifecycles: Sequence[str] = ()) -> Json:
    found = list(cards) if not lifecycles or LIFECYCLES[0] in lifecycles else []
    if unknown := set(lifecycles) - set(LIFECYCLES):
        raise InvalidField(f"lifecycle is one of {', '.join(LIFECYCLES)}: {min(unknown)[:20]!a}", param="lifecycle")
    most, names = _limit(query), [str(card["id"]) for card in found]
    start, end = 0, len(found)
    if "after_id" in query:
        start = _at(names, query, "after_id") + 1
    elif "before_id" in query:
        end = _at(names, query, "before_id")
        start = max(end - most, 0)
    shown = found[start : min(start + most, end)]
    has_more = start > 0 if "before_id" in query else start + most < end
    ends = {"first_id": shown[0]["id"] if shown else None, "last_id": shown[-1]["id"] if shown else None}
    return {"data": [*map(info, shown)], "has_more": has_more, **ends}


def _limit(query: Mapping[str, str]) -> int:
    given = query.get("limit", str(PAGE))
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:5]) <= MOST_PAGE:
        raise InvalidField(f"limit is a whole number from 1 to {MOST_PAGE}", param="limit")
    return int(given)


def _at(names: Sequence[str], query: Mapping[str, str], param: str) -> int:
    if query[param] not in names:
        raise InvalidField(f"{param} is no model of this list", param=param)
    return names.index(query[param])
