"""Common parts of the API document's routes: parameters, answers with headers, refusals by status."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus

from penstock.domain.outcome import Degradation
from penstock.domain.serving.idempotency import MAX_KEY_CHARS
from penstock.domain.tenancy.tenant import TierName
from penstock.gateway.listener.errors import TABLE
from penstock.gateway.openai import head

Json = dict[str, object]
SECURITY: Json = {"security": [{"bearer": []}, {"header": []}]}
STATUSES = frozenset(row.status for row in TABLE.values()) - {507}
"""The statuses of inference, which stores no input."""
JSON = "application/json"
ACCEPTED = 202
_ANY_ROUTE = (400, 405, 408, 431, 500, 503)


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def get(
    summary: str, schema: Json, *, content: str = "application/json", secured: bool = False, error: str = "Error"
) -> Json:
    statuses = {*_ANY_ROUTE, *([401, 403] if secured else [])}
    return {
        "summary": summary,
        "responses": {"200": answer("OK", {content: {"schema": schema}}), **errors(statuses, error)},
        **(SECURITY if secured else {}),
    }


def operation(
    summary: str, schema: Json, *, status: int = 200, body: Json | None = None, more: Iterable[int] = ()
) -> Json:
    """Return an operation on the caller's own objects; it is absent without jobs runners."""
    asked: Json = {} if body is None else {"requestBody": {"required": True, "content": {JSON: {"schema": body}}}}
    refusals = errors({*_ANY_ROUTE, 401, 403, 404, *more}, "Error")
    done = answer("Done.", {JSON: {"schema": schema}}, REPLAYED if status == ACCEPTED else None)
    return {"summary": summary, **SECURITY, **asked, "responses": {str(status): done, **refusals}}


def page_of(name: str) -> Json:
    end: Json = {"type": ["string", "null"]}
    data: Json = {"type": "array", "items": ref(name)}
    return {
        "type": "object",
        "required": ["object", "data", "first_id", "last_id", "has_more"],
        "properties": {
            "object": {"const": "list"},
            "data": data,
            "first_id": end,
            "last_id": end,
            "has_more": {"type": "boolean"},
        },
    }


def one(described: Json, *named: str, statuses: set[int], error: str = "Error") -> Json:
    return {
        **described,
        "responses": {**responses_of(described), **errors(statuses, error)},
        "parameters": in_path(*named),
    }


def responses_of(described: Json) -> Json:
    responses = described["responses"]
    assert isinstance(responses, dict)  # noqa: S101  made by `get` or `operation`
    return responses


def in_path(*named: str) -> list[Json]:
    schema: Json = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in named]


HEADERS: Mapping[str, Json] = {
    "x-request-id": {"type": "string", "description": "The caller's own id; the request's id begins with it."},
    "x-penstock-deadline-ms": {
        "type": "integer",
        "minimum": 1,
        "maximum": int(head.MAX_DEADLINE_S * 1000),
        "description": "How long the caller waits; a plan's or a tier's shorter deadline counts instead.",
    },
    "idempotency-key": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_KEY_CHARS,
        "pattern": "^[!-~]+$",
        "description": "The same key and body get the same answer, once charged, for a day; another body is a 422. "
        "Where the platform has no store for answers (PENSTOCK_ANSWERS_URL) they end with the gateway's process.",
    },
    "x-penstock-session": {
        "type": "string",
        "maxLength": head.MAX_SESSION_CHARS,
        "pattern": "^[ -~]*$",
        "description": "Requests of one session have one version of a model while its shares stay as they are.",
    },
    "x-penstock-price-cap": {
        "type": "string",
        "pattern": r"^(?!0+([.]0+)?$)[0-9]{1,6}([.][0-9]{1,6})?$",
        "description": "The most that a million tokens of prompt or of output may cost, in dollars: dearer models are "
        "passed over by the rules of an auto alias, and refused under their own names.",
    },
    "x-penstock-auto": {
        "type": "string",
        "maxLength": 63,
        "description": "The rule of this conversation's last answer: it stays there, or goes on to a later one.",
    },
    "traceparent": {"type": "string", "description": "W3C trace context: the request is traced as it says."},
}


def parameter(name: str, schema: Json, place: str = "header") -> Json:
    return {"name": name, "in": place, "required": False, "schema": schema}


def answer(description: str, content: Json, headers: Mapping[str, Json] | None = None) -> Json:
    all_: Json = {"x-request-id": {"required": True, "schema": {"type": "string"}}, **(headers or {})}
    return {"description": description, "headers": all_, "content": content}


def told(description: str, schema: Json) -> Json:
    return {"description": description, "required": False, "schema": schema}


_LIMIT: Mapping[str, tuple[str, Json]] = {
    "limit": ("The tightest limit of {} a minute, of key, tenant and organisation.", {"type": "integer"}),
    "remaining": ("What is left of it: {} that may be asked for now.", {"type": "integer", "minimum": 0}),
    "reset": ("Until all {} are there again, as 12ms, 8.64s or 6m0s.", {"type": "string"}),
}
LIMITS: Mapping[str, Json] = {
    f"x-ratelimit-{name}-{measure}": told(text.format(measure), schema)
    for measure in ("requests", "tokens")
    for name, (text, schema) in _LIMIT.items()
}
REPLAYED: Mapping[str, Json] = {
    "idempotency-replayed": told(
        "The answer to an earlier request with this idempotency key.", {"type": "string", "const": "true"}
    ),
}
DEGRADED: Mapping[str, Json] = {
    "x-penstock-degraded": told(
        "What the answer lacks because its tenant prefers that to a refusal, joined by commas.",
        {"type": "string", "examples": [str(lack) for lack in Degradation]},
    ),
}
IGNORED: Mapping[str, Json] = {
    "x-penstock-ignored": told("Fields of the request without effect, joined by commas.", {"type": "string"}),
}
SERVED_TIER: Mapping[str, Json] = {
    "x-penstock-service-tier": told(
        "The service tier that served, if the request named one or its plan serves it in another than default.",
        {"type": "string", "enum": [str(tier) for tier in TierName]},
    ),
}
RULED: Mapping[str, Json] = {
    "x-penstock-auto": told("Of an auto alias: the rule that decided which model answers.", {"type": "string"}),
}
_WAITS: Mapping[str, Json] = {
    "retry-after": told("Whole seconds, rounded up.", {"type": "integer", "minimum": 1}),
    "retry-after-ms": told("The same, exactly.", {"type": "integer", "minimum": 1}),
    "x-should-retry": told(
        "Whether the same request may be sent again.", {"type": "string", "enum": ["true", "false"]}
    ),
}
_REASON: Mapping[str, Json] = {
    "x-penstock-reason": told("The limit that refused: its scope and measure, as tenant_tokens.", {"type": "string"}),
}
_REFUSED_BY_LIMIT = frozenset({402, 429})
_KEPT = frozenset({400, 403, 404, 413, 422})
"""Refusals that are replayed under their idempotency key."""


def _headers(status: int) -> Mapping[str, Json]:
    limits = {**LIMITS, **_REASON} if status in _REFUSED_BY_LIMIT else {}
    return {**_WAITS, **limits, **(REPLAYED if status in _KEPT else {})}


def errors(statuses: Iterable[int], schema: str) -> Json:
    return {str(status): _error(status, schema) for status in sorted(statuses)}


def _error(status: int, schema: str) -> Json:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Client Closed Request"
    # What the connection itself refuses (headers, framing) comes before the API is known, in the one shape.
    shapes = [ref(name) for name in dict.fromkeys((schema, "Error"))]
    schema_of_all = {"anyOf": shapes} if len(shapes) > 1 else shapes[0]
    return answer(phrase, {"application/json": {"schema": schema_of_all}}, _headers(status))
