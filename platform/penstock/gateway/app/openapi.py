"""The API document (OpenAPI 3.1), which matches the gateway's checks and answers exactly (A11).

Fields come from the table of fields, error answers from the error table, so none can be forgotten.
"""

from collections.abc import Mapping
from functools import lru_cache

from penstock import __version__
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.app import (
    openapi_batches,
    openapi_fields,
    openapi_files,
    openapi_jobs,
    openapi_responses,
    openapi_tensors,
    openapi_webhooks,
    queries,
)
from penstock.gateway.app.openapi_parts import (
    DEGRADED,
    HEADERS,
    IGNORED,
    LIMITS,
    REPLAYED,
    RULED,
    SECURITY,
    SERVED_TIER,
    STATUSES,
    Json,
    answer,
    errors,
    get,
    in_path,
    one,
    parameter,
    ref,
)
from penstock.gateway.app.queries import MODELS
from penstock.gateway.listener.errors import TABLE
from penstock.gateway.openai import bounds, parse, tools

DEFERRED = (openapi_jobs, openapi_files, openapi_batches, openapi_responses, openapi_webhooks)
"""The documents of deferred work."""
REQUESTS = "/v1/requests"
"""The page on which callers find the records of their requests."""
_NULL: Json = {"type": "null"}
_VERSION: Json = {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}}
_COUNTED: Json = {
    "type": "object",
    "required": ["input_tokens"],
    "properties": {"input_tokens": {"type": "integer", "minimum": 0}},
}
_REQUEST: Json = {
    "type": "object",
    "required": ["object", "id", "outcome", "says", "timeline"],
    "properties": {
        "object": {"const": "request"},
        "id": {"type": "string"},
        "outcome": {"enum": [str(one) for one in Outcome]},
        "says": {"type": "array", "items": {"type": "string"}, "description": "Its story, sentence by sentence."},
        "timeline": {"type": "array", "description": "Stages as name, start and length in seconds."},
    },
    "description": "What is not known is null.",
}
_NO_BODY: Json = {"200": {"description": "It can."}, "503": {"description": "Not yet, or no more."}}
_STRINGS: Json = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": parse.MAX_PROMPTS}
_IDS: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_ID_LISTS: Json = {"type": "array", "items": _IDS, "minItems": 1, "maxItems": parse.MAX_PROMPTS}
_PROMPT: Json = {"anyOf": [{"type": "string"}, _STRINGS, _IDS, _ID_LISTS]}
_CLASSIFIED: Json = {**_PROMPT, "description": "Texts, or images as data: URLs (JPEG, PNG, WebP)."}
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
_TOOLS: Json = {"type": ["array", "null"], "maxItems": tools.MAX_TOOLS, "items": {"type": "object"}}
_TEMPLATE_ARGUMENTS: Json = {"type": ["object", "null"], "maxProperties": bounds.MAX_TEMPLATE_ARGUMENTS}
_INPUTS: Mapping[Api, tuple[Json, list[str]]] = {
    Api.CHAT: ({"messages": _MESSAGES}, ["model", "messages"]),
    Api.COMPLETIONS: ({"prompt": _PROMPT}, ["model", "prompt"]),
    Api.EMBEDDINGS: ({"input": _PROMPT}, ["model", "input"]),
    Api.CLASSIFY: ({"input": _CLASSIFIED}, ["model", "input"]),
    Api.RESPONSES: ({"input": {"anyOf": [{"type": "string"}, _ITEMS]}}, ["model", "input"]),
    Api.MESSAGES: ({"messages": _MESSAGES}, ["model", "messages", "max_tokens"]),
}

_SUMMARIES: Mapping[Api, str] = {
    Api.CHAT: "Answer a conversation.",
    Api.COMPLETIONS: "Continue a prompt.",
    Api.EMBEDDINGS: "Turn text into vectors.",
    Api.CLASSIFY: "Tell what texts or images are: labels and scores.",
    Api.RESPONSES: "Answer a conversation (responses API; nothing is stored).",
    Api.MESSAGES: "Answer a conversation (messages API).",
}


@lru_cache(maxsize=1)
def document() -> Json:
    paths: Json = {str(api): {"post": _inference(api)} for api in JSON_APIS}
    paths |= {path: {"post": _counting(api)} for path, api in parse.COUNTS.items()}
    models = get("List the models that this key may use.", _list("Model"), secured=True)
    paths[MODELS] = {"get": {**models, "parameters": _queries(MODELS)}}
    model = one(get("Describe one model.", ref("Model"), secured=True), "model", statuses={404})
    paths[f"{MODELS}/{{model}}"] = {"get": {**model, "parameters": [*in_path("model"), *_queries(f"{MODELS}/")]}}
    request = get("Tell the life of a request that has ended, and why it was as it was.", _REQUEST, secured=True)
    paths[f"{REQUESTS}/{{request_id}}"] = {"get": one(request, "request_id", statuses={404, 429})}
    paths["/healthz"] = {"get": get("Tell that the process lives.", ref("Status"))}
    paths["/readyz"] = {"get": get("Tell whether it can serve.", ref("Status"))}
    paths["/readyz/region"] = {"get": get("Tell whether any model of this region can answer.", ref("Status"))}
    as_vllm = {"summary": "Tell by the status whether it can serve, as vLLM does.", "responses": _NO_BODY}
    paths["/health"] = {"get": as_vllm}
    paths["/ping"] = {"get": as_vllm, "post": as_vllm}
    paths["/version"] = {"get": get("Tell the platform's version.", _VERSION)}
    paths["/docs"] = {"get": get("This document, for people.", {"type": "string"}, content="text/html")}
    paths["/openapi.json"] = {"get": get("This document.", {"type": "object"})}
    for part in DEFERRED:
        paths |= part.paths()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": __version__,
            "description": "Large language models behind one gateway. Fields that are not listed are refused.",
        },
        "paths": paths | openapi_tensors.paths(),
        "components": {"schemas": _schemas() | openapi_tensors.schemas(), "securitySchemes": _SECURITY_SCHEMES},
    }


_SECURITY_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def _queries(path: str) -> list[Json]:
    known = sorted(queries.known_at(path, is_anthropics=True))
    return [parameter(name, {"type": "string"}, "query") for name in known]


def _list(name: str) -> Json:
    return {
        "type": "object",
        "required": ["object", "data"],
        "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": ref(name)}},
    }


def _inference(api: Api) -> Json:
    content: Json = {"application/json": {"schema": {"type": "object"}}}
    if api.generates:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    error = "MessagesError" if api is Api.MESSAGES else "Error"
    return {
        "summary": _SUMMARIES[api],
        **SECURITY,
        "parameters": [*(parameter(name, schema) for name, schema in HEADERS.items()), *_queries(api)],
        "requestBody": {"required": True, "content": {"application/json": {"schema": _body(api)}}},
        "responses": {
            "200": answer(
                "The answer, or its events if stream is true.",
                content,
                {**LIMITS, **REPLAYED, **DEGRADED, **RULED, **SERVED_TIER, **IGNORED},
            ),
            **errors(STATUSES, error),
        },
    }


def _counting(api: Api) -> Json:
    body = {**_body(api), "required": [name for name in _INPUTS[api][1] if name != "max_tokens"]}
    error = "MessagesError" if api is Api.MESSAGES else "Error"
    statuses = STATUSES - {402}
    return {
        "summary": "Count the tokens of a conversation; no engine works and nothing is billed.",
        **SECURITY,
        "parameters": _queries(str(api)),
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": answer("How many tokens it has.", {"application/json": {"schema": _COUNTED}}, LIMITS),
            **errors(statuses, error),
        },
    }


def _body(api: Api) -> Json:
    fields, required = _INPUTS[api]
    given = openapi_fields.properties(api)
    properties: Json = {**given, "model": _MODEL, **fields, **dict.fromkeys(parse.OUTPUT_FIELDS[api], _TOKENS)}
    if "tools" in given:
        properties["tools"] = _TOOLS
    if "chat_template_kwargs" in given:
        properties["chat_template_kwargs"] = _TEMPLATE_ARGUMENTS
    if api in {Api.CHAT, Api.COMPLETIONS}:
        properties["n"] = _SEQUENCES
    if api is Api.MESSAGES:
        properties["max_tokens"] = {**_TOKENS, "type": "integer"}
    whole = {"type": "object", "required": required, "properties": properties, "additionalProperties": False}
    return {**whole, "maxProperties": bounds.MAX_FIELDS}


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
        "properties": {
            "id": {"type": "string"},
            "object": {"const": "model"},
            "created": {"type": "integer"},
            "training_use": {"enum": ["no", "yes"], "description": "Of what is stored for this tenant."},
        },
    }
    return {
        "ErrorFields": fields,
        "Error": {"type": "object", "required": ["error"], "properties": {"error": ref("ErrorFields")}},
        "MessagesError": {
            "type": "object",
            "required": ["type", "error"],
            "properties": {"type": {"const": "error"}, "error": ref("ErrorFields")},
        },
        **{name: schema for part in DEFERRED for name, schema in part.schemas().items()},
        "Model": card,
        "Status": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
    }
