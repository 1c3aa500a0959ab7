"""The API document (OpenAPI 3.1): what the gateway itself checks and answers, no less and no more (A11).

Bodies are loose on purpose: fields that only the engine understands pass through, so the document doesn't list what
an engine's next version may add. Error answers come from the error table, so they can't be forgotten here.
"""

from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus

from penstock import __version__
from penstock.domain.idempotency import MAX_KEY_CHARS
from penstock.domain.outcome import Degradation
from penstock.domain.request import Api
from penstock.gateway.edge import bounds, head, parse
from penstock.gateway.edge.errors import TABLE

Json = dict[str, object]

_ANY_ROUTE = (400, 405, 408, 431, 500, 503)
_NULL: Json = {"type": "null"}
_VERSION: Json = {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}}
_COUNTED: Json = {
    "type": "object",
    "required": ["input_tokens"],
    "properties": {"input_tokens": {"type": "integer", "minimum": 0}},
}
_NO_BODY: Json = {"200": {"description": "It can."}, "503": {"description": "Not yet, or no more."}}
_STRINGS: Json = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": parse.MAX_PROMPTS}
_IDS: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_ID_LISTS: Json = {"type": "array", "items": _IDS, "minItems": 1, "maxItems": parse.MAX_PROMPTS}
_PROMPT: Json = {"anyOf": [{"type": "string"}, _STRINGS, _IDS, _ID_LISTS]}
_CONTENT: Json = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "array",
            "maxItems": bounds.MAX_PARTS,
            "items": {"anyOf": [{"type": "object"}, {"type": "string"}]},
            "description": "Media come as data: addresses; nothing is fetched.",
        },
        _NULL,
    ]
}
_MESSAGES: Json = {
    "type": "array",
    "minItems": 1,
    "maxItems": parse.MAX_MESSAGES,
    "items": {
        "type": "object",
        "required": ["role"],
        "properties": {"role": {"type": "string", "minLength": 1}, "content": _CONTENT},
    },
}
_ITEMS: Json = {"type": "array", "minItems": 1, "maxItems": parse.MAX_MESSAGES, "items": {"type": "object"}}
_MODEL: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": parse.MAX_MODEL_CHARS,
    "description": "Alias or name@version",
}
_TOKENS: Json = {"type": ["integer", "null"], "minimum": 1, "maximum": parse.MAX_OUTPUT_TOKENS}
_SEQUENCES: Json = {"type": ["integer", "null"], "minimum": 1, "maximum": parse.MAX_SEQUENCES}
_TOOLS: Json = {"type": ["array", "null"], "maxItems": bounds.MAX_TOOLS, "items": {"type": "object"}}
_TEMPLATE_ARGUMENTS: Json = {"type": ["object", "null"], "maxProperties": bounds.MAX_TEMPLATE_ARGUMENTS}
_STREAM_OPTIONS: Json = {
    "type": ["object", "null"],
    "properties": {"include_usage": {"type": ["boolean", "null"]}},
    "description": "Only together with stream.",
}

_INPUTS: Mapping[Api, tuple[Json, list[str]]] = {
    Api.CHAT: ({"messages": _MESSAGES}, ["model", "messages"]),
    Api.COMPLETIONS: ({"prompt": _PROMPT}, ["model", "prompt"]),
    Api.EMBEDDINGS: ({"input": _PROMPT}, ["model", "input"]),
    Api.RESPONSES: ({"input": {"anyOf": [{"type": "string"}, _ITEMS]}}, ["model", "input"]),
    Api.MESSAGES: ({"messages": _MESSAGES}, ["model", "messages", "max_tokens"]),
}

_SUMMARIES: Mapping[Api, str] = {
    Api.CHAT: "Answer a conversation.",
    Api.COMPLETIONS: "Continue a prompt.",
    Api.EMBEDDINGS: "Turn text into vectors.",
    Api.RESPONSES: "Answer a conversation (responses API; nothing is stored).",
    Api.MESSAGES: "Answer a conversation (messages API).",
}


@lru_cache(maxsize=1)
def document() -> Json:
    """Return the document."""
    paths: Json = {str(api): {"post": _inference(api)} for api in Api}
    paths[parse.COUNT_TOKENS] = {"post": _counting()}
    paths["/v1/models"] = {"get": _get("List the models that this key may use.", _list("Model"), secured=True)}
    paths["/v1/models/{model}"] = {"get": _one_model()}
    paths["/healthz"] = {"get": _get("Tell that the process lives.", _ref("Status"))}
    paths["/readyz"] = {"get": _get("Tell whether it can serve.", _ref("Status"))}
    paths["/readyz/region"] = {"get": _get("Tell whether any model of this region can answer.", _ref("Status"))}
    as_vllm = {"summary": "Tell by the status whether it can serve, as vLLM does.", "responses": _NO_BODY}
    paths["/health"] = {"get": as_vllm}
    paths["/ping"] = {"get": as_vllm, "post": as_vllm}
    paths["/version"] = {"get": _get("Tell the platform's version.", _VERSION)}
    paths["/docs"] = {"get": _get("This document, for people.", {"type": "string"}, content="text/html")}
    paths["/openapi.json"] = {"get": _get("This document.", {"type": "object"})}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": __version__,
            "description": "Large language models behind one gateway. Fields not listed go to the engine unchanged.",
        },
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _SECURITY_SCHEMES},
    }


_SECURITY_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(name: str) -> Json:
    return {
        "type": "object",
        "required": ["object", "data"],
        "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _ref(name)}},
    }


def _get(summary: str, schema: Json, *, content: str = "application/json", secured: bool = False) -> Json:
    statuses = {*_ANY_ROUTE, *([401, 403] if secured else [])}
    return {
        "summary": summary,
        "responses": {"200": _answer("OK", {content: {"schema": schema}}), **_errors(statuses, "Error")},
        **({"security": [{"bearer": []}, {"header": []}]} if secured else {}),
    }


def _one_model() -> Json:
    described = _get("Describe one model.", _ref("Model"), secured=True)
    responses = described["responses"]
    assert isinstance(responses, dict)  # noqa: S101  made above
    responses |= _errors({404}, "Error")
    parameter: Json = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {**described, "parameters": [parameter]}


def _inference(api: Api) -> Json:
    content: Json = {"application/json": {"schema": {"type": "object"}}}
    if api is not Api.EMBEDDINGS:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    error = "MessagesError" if api is Api.MESSAGES else "Error"
    return {
        "summary": _SUMMARIES[api],
        "security": [{"bearer": []}, {"header": []}],
        "parameters": [_ref_parameter(name, schema) for name, schema in _HEADERS.items()],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _body(api)}}},
        "responses": {
            "200": _answer(
                "The answer, or its events where stream is true.", content, {**_LIMITS, **_REPLAYED, **_DEGRADED}
            ),
            **_errors({row.status for row in TABLE.values()}, error),
        },
    }


def _counting() -> Json:
    body = {**_body(Api.MESSAGES), "required": ["model", "messages"]}
    statuses = {row.status for row in TABLE.values()} - {402}
    return {
        "summary": "Count the tokens of a conversation; no engine works and nothing is billed.",
        "security": [{"bearer": []}, {"header": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": _answer("How many tokens it has.", {"application/json": {"schema": _COUNTED}}, _LIMITS),
            **_errors(statuses, "MessagesError"),
        },
    }


_HEADERS: Mapping[str, Json] = {
    "x-request-id": {"type": "string"},
    "x-penstock-deadline-ms": {"type": "integer", "minimum": 1, "maximum": int(head.MAX_DEADLINE_S * 1000)},
    "idempotency-key": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_KEY_CHARS,
        "pattern": "^[!-~]+$",
        "description": "The same key and body get the same answer, once charged, for a day; another body is a 422. "
        "Where the platform has no store for answers (PENSTOCK_ANSWERS_URL) they end with the gateway's process.",
    },
    "traceparent": {"type": "string"},
}


def _ref_parameter(name: str, schema: Json) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": schema}


def _body(api: Api) -> Json:
    fields, required = _INPUTS[api]
    properties: Json = {"model": _MODEL, **fields}
    if api is not Api.COMPLETIONS:
        properties["chat_template_kwargs"] = _TEMPLATE_ARGUMENTS
    if api is not Api.EMBEDDINGS:
        properties |= {"stream": {"type": ["boolean", "null"]}, "stream_options": _STREAM_OPTIONS}
        properties |= {name: {"type": ["number", "null"]} for name in parse.NUMBERS}
        properties |= {**dict.fromkeys(parse.OUTPUT_FIELDS[api], _TOKENS), "tools": _TOOLS}
    if api in {Api.CHAT, Api.COMPLETIONS}:
        properties["n"] = _SEQUENCES
    if api is Api.MESSAGES:
        properties["max_tokens"] = {**_TOKENS, "type": "integer"}
    whole = {"type": "object", "required": required, "properties": properties, "additionalProperties": True}
    return {**whole, "maxProperties": bounds.MAX_FIELDS}


def _answer(description: str, content: Json, headers: Mapping[str, Json] | None = None) -> Json:
    told: Json = {"x-request-id": {"required": True, "schema": {"type": "string"}}, **(headers or {})}
    return {"description": description, "headers": told, "content": content}


def _told(description: str, schema: Json) -> Json:
    return {"description": description, "required": False, "schema": schema}


_LIMIT: Mapping[str, tuple[str, Json]] = {
    "limit": ("The tightest limit of {} a minute, of key, tenant and organisation.", {"type": "integer"}),
    "remaining": ("What is left of it: {} that may be asked for now.", {"type": "integer", "minimum": 0}),
    "reset": ("Until all {} are there again, as 12ms, 8.64s or 6m0s.", {"type": "string"}),
}
_LIMITS: Mapping[str, Json] = {
    f"x-ratelimit-{name}-{measure}": _told(text.format(measure), schema)
    for measure in ("requests", "tokens")
    for name, (text, schema) in _LIMIT.items()
}
_REPLAYED: Mapping[str, Json] = {
    "idempotency-replayed": _told(
        "The answer to an earlier request with this idempotency key.", {"type": "string", "const": "true"}
    ),
}
_DEGRADED: Mapping[str, Json] = {
    "x-penstock-degraded": _told(
        "What the answer lacks because its tenant prefers that to a refusal, joined by commas.",
        {"type": "string", "examples": [str(lack) for lack in Degradation]},
    ),
}
_WAITS: Mapping[str, Json] = {
    "retry-after": _told("Whole seconds, rounded up.", {"type": "integer", "minimum": 1}),
    "retry-after-ms": _told("The same, exactly.", {"type": "integer", "minimum": 1}),
    "x-should-retry": _told(
        "Whether the same request may be sent again.", {"type": "string", "enum": ["true", "false"]}
    ),
}
_REASON: Mapping[str, Json] = {
    "x-penstock-reason": _told("The limit that refused: whose, and of what, as tenant_tokens.", {"type": "string"}),
}
_REFUSED_BY_LIMIT = frozenset({402, 429})
_KEPT = frozenset({400, 403, 404, 413, 422})
"""Refusals that are repeated under their idempotency key."""


def _headers(status: int) -> Mapping[str, Json]:
    """Return what a refusal with this status may tell in its head."""
    limits = {**_LIMITS, **_REASON} if status in _REFUSED_BY_LIMIT else {}
    return {**_WAITS, **limits, **(_REPLAYED if status in _KEPT else {})}


def _errors(statuses: set[int], schema: str) -> Json:
    return {str(status): _error(status, schema) for status in sorted(statuses)}


def _error(status: int, schema: str) -> Json:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Client Closed Request"
    # What the connection itself refuses (headers, framing) comes before the API is known, in the one shape.
    shapes = [_ref(name) for name in dict.fromkeys((schema, "Error"))]
    schema_of_all = {"anyOf": shapes} if len(shapes) > 1 else shapes[0]
    return _answer(phrase, {"application/json": {"schema": schema_of_all}}, _headers(status))


def _schemas() -> Json:
    fields: Json = {
        "type": "object",
        "required": ["message", "type", "code", "request_id", "retryable"],
        "properties": {
            "message": {"type": "string"},
            "type": {"enum": sorted({t for row in TABLE.values() for t in (row.type, row.anthropic)})},
            "code": {"enum": sorted({kind.code for kind in TABLE})},
            "param": {"type": ["string", "null"]},
            "reason": {"type": ["string", "null"], "description": "The limit that refused, as tenant_tokens."},
            "request_id": {"type": "string"},
            "retryable": {"type": "boolean"},
            "retry_after": {"type": ["integer", "null"], "minimum": 1, "description": "Seconds"},
        },
    }
    card: Json = {
        "type": "object",
        "required": ["id", "object", "created", "owned_by", "version", "task", "max_model_len"],
        "properties": {"id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"}},
    }
    return {
        "ErrorFields": fields,
        "Error": {"type": "object", "required": ["error"], "properties": {"error": _ref("ErrorFields")}},
        "MessagesError": {
            "type": "object",
            "required": ["type", "error"],
            "properties": {"type": {"const": "error"}, "error": _ref("ErrorFields")},
        },
        "Model": card,
        "Status": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
    }
