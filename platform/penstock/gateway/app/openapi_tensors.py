"""The Open Inference Protocol in the API document: its read routes, and inference with tensors as JSON or binary.

Names are the protocol's own; bodies with fields that depend on the model are left open.
"""

from penstock.domain.models.tensors import HEAD_LENGTH, MAX_RANK, Datatype
from penstock.gateway.app.openapi_parts import (
    DEGRADED,
    HEADERS,
    LIMITS,
    REPLAYED,
    SECURITY,
    STATUSES,
    Json,
    answer,
    errors,
    get,
    in_path,
    one,
    parameter,
)
from penstock.gateway.oip.nouns import MAX_NAME_CHARS, MAX_PARAMETERS, MAX_TENSORS
from penstock.gateway.oip.routes import MODEL, ROOT, VERSION

_ERROR = "InferError"
_NAME: Json = {"type": "string", "maxLength": MAX_NAME_CHARS}
_SHAPE: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": MAX_RANK}
_DATATYPE: Json = {"enum": [str(one_) for one_ in Datatype]}
_PARAMETERS: Json = {
    "type": "object",
    "maxProperties": MAX_PARAMETERS,
    "additionalProperties": {"type": ["boolean", "integer", "number", "string"]},
    "description": "binary_data_size: the tensor's bytes behind the JSON. binary_data, binary_data_output: outputs so. "
    "classification: so many of an output's highest values, as score:index:label. timeout: the deadline, in "
    "microseconds. priority and others that the model does not take are refused.",
}
_LIST: Json = {"type": "array", "description": "Elements in row-major order, nested or flat."}
_TENSOR: Json = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": _NAME,
        "shape": _SHAPE,
        "datatype": _DATATYPE,
        "parameters": _PARAMETERS,
        "data": _LIST,
    },
    "additionalProperties": False,
}
_WANTED: Json = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _NAME, "parameters": _PARAMETERS},
    "additionalProperties": False,
}
_REQUEST: Json = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": _NAME,
        "model_name": {**_NAME, "description": "The model of the path, where it is said again."},
        "parameters": _PARAMETERS,
        "inputs": {"type": "array", "items": _TENSOR, "minItems": 1, "maxItems": MAX_TENSORS},
        "outputs": {"type": "array", "items": _WANTED, "maxItems": MAX_TENSORS},
    },
    "additionalProperties": False,
}
_ANSWER: Json = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "outputs": {"type": "array", "items": _TENSOR},
    },
}
_DESCRIBED: Json = {"type": "array", "items": {"type": "object", "required": ["name", "datatype", "shape"]}}
_MODEL: Json = {
    "type": "object",
    "required": ["name", "versions", "platform", "inputs", "outputs"],
    "properties": {"inputs": _DESCRIBED, "outputs": _DESCRIBED, "parameters": {"type": "object"}},
    "description": "In a shape -1 is a dimension that varies. parameters.inputs: which inputs make a request.",
}
_INDEXED: Json = {"type": "object", "required": ["name", "version", "state", "reason"]}
_HEAD: Json = {"type": "integer", "minimum": 0, "description": "So many bytes of the body are JSON, tensors the rest."}


def paths() -> Json:
    ready: Json = {"type": "object", "required": ["ready"], "properties": {"ready": {"const": True}}}
    found: Json = {
        ROOT: {"get": _ask("Tell the server's name, version and extensions.", {"type": "object"})},
        f"{ROOT}/health/live": {"get": _ask("Tell that the process lives.", {"type": "object"})},
        f"{ROOT}/health/ready": {"get": _ask("Tell whether it can serve.", ready)},
        f"{ROOT}/repository/index": {"post": _index()},
    }
    for path, names in ((MODEL, ("model",)), (VERSION, ("model", "version"))):
        model = _ask("Describe a model's tensors.", _MODEL, secured=True)
        is_ready = _ask("Tell whether a worker of it could answer.", ready, secured=True)
        found[path] = {"get": one(model, *names, statuses={404}, error=_ERROR)}
        found[f"{path}/ready"] = {"get": one(is_ready, *names, statuses={404}, error=_ERROR)}
        found[f"{path}/infer"] = {"post": _inference(names)}
    return found


def schemas() -> Json:
    words: Json = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    return {_ERROR: {"allOf": [words, {"type": "object", "required": ["code", "request_id", "retryable"]}]}}


def _ask(summary: str, schema: Json, *, secured: bool = False) -> Json:
    return get(summary, schema, secured=secured, error=_ERROR)


def _index() -> Json:
    asked: Json = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    body: Json = {"required": False, "content": {"application/json": {"schema": asked}}}
    told: Json = {"type": "array", "items": _INDEXED}
    return {**_ask("List the models that this key may use, with versions.", told, secured=True), "requestBody": body}


def _inference(names: tuple[str, ...]) -> Json:
    whole: Json = {"application/json": {"schema": _ANSWER}, "application/octet-stream": {"schema": {}}}
    headers = [parameter(name, schema) for name, schema in HEADERS.items()]
    return {
        "summary": "Ask a model: tensors in, tensors out (Open Inference Protocol, version 2).",
        **SECURITY,
        "parameters": [*in_path(*names), *headers, parameter(HEAD_LENGTH, _HEAD)],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _REQUEST}},
        },
        "responses": {
            "200": answer("The model's tensors.", whole, {**LIMITS, **REPLAYED, **DEGRADED}),
            **errors(STATUSES, _ERROR),
        },
    }
