"""A record as JSON: named fields, with its story."""

from typing import Any

from penstock.domain.serving.request_record import RequestRecord
from penstock.explain.judging import cost, judged
from penstock.explain.spans import timeline
from penstock.explain.story import tell


def shown(record: RequestRecord) -> dict[str, Any]:
    attempts = [one._asdict() for one in record.attempts]
    told = {"says": tell(record), "timeline": timeline(record), "attempts": attempts}
    judgement = {"cost_micro_usd": cost(record), "promises": [_named(one) for one in judged(record)]}
    return {"object": "request", **_named(record), **judgement, **told}


def _named(value: object) -> Any:  # noqa: ANN401  as JSON
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _named(one) for name, one in value._asdict().items()}
    return [_named(one) for one in value] if isinstance(value, tuple | list) else value
