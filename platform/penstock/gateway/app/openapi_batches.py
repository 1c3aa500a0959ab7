"""Batches in the API document: their routes, and the batch as an object."""

from penstock.domain.jobs.batch import BatchState
from penstock.domain.jobs.file import LEAST_KEPT_S, MOST_KEPT_S
from penstock.domain.serving.request import JSON_APIS
from penstock.gateway.app.openapi_jobs import METADATA
from penstock.gateway.app.openapi_parts import HEADERS, Json, in_path, operation, page_of, parameter, ref
from penstock.gateway.app.queries import known_at
from penstock.gateway.deferred import batches

_SECONDS: Json = {"type": ["integer", "null"], "description": "Unix seconds."}
_TEXT: Json = {"type": ["string", "null"]}
_COUNT: Json = {"type": "integer", "minimum": 0}
_NEW: Json = {
    "type": "object",
    "required": ["input_file_id", "endpoint", "completion_window"],
    "additionalProperties": False,
    "properties": {
        "input_file_id": {"type": "string", "description": "A file of purpose batch, one request on each line."},
        "endpoint": {"enum": list(JSON_APIS), "description": "The API of all lines."},
        "completion_window": {"type": "string", "description": "24h, or another window that the plan offers."},
        "metadata": {"anyOf": [METADATA, {"type": "null"}]},
        "output_expires_after": {
            "type": ["object", "null"],
            "required": ["anchor", "seconds"],
            "additionalProperties": False,
            "properties": {
                "anchor": {"const": batches.ANCHOR},
                "seconds": {"type": "integer", "minimum": LEAST_KEPT_S, "maximum": MOST_KEPT_S},
            },
        },
    },
}
_FAULT: Json = {
    "type": "object",
    "properties": {"code": _TEXT, "message": _TEXT, "param": _TEXT, "line": {"type": ["integer", "null"]}},
}
_FIELDS: Json = {
    "id": {"type": "string"},
    "object": {"const": "batch"},
    "endpoint": {"type": "string"},
    "model": {**_TEXT, "description": "The model of all lines; null for several."},
    "versions": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "The version behind each model's name, fixed when the file was accepted.",
    },
    "errors": {"type": ["object", "null"], "properties": {"data": {"type": "array", "items": _FAULT}}},
    "input_file_id": {"type": "string"},
    "completion_window": {"type": "string"},
    "status": {"enum": list(BatchState)},
    "output_file_id": _TEXT,
    "error_file_id": _TEXT,
    "created_at": {"type": "integer"},
    "expires_at": {"type": "integer", "description": "The deadline: what has not run by then is not run."},
    **{f"{state}_at": _SECONDS for state in BatchState if state is not BatchState.VALIDATING},
    "paused_at": _SECONDS,
    "reason": {
        **_TEXT,
        "description": "Why its lines wait: paused (by its tenant or the operator), budget, hours; else null.",
    },
    "request_counts": {"type": "object", "properties": dict.fromkeys(("total", "completed", "failed"), _COUNT)},
    "usage": {"type": "object", "description": "Tokens of the lines that were answered."},
    "metadata": {"type": ["object", "null"]},
}
_ACTS = {
    "cancel": "Cancel a batch; what is done by then stands in its files.",
    "pause": "Start no further line of a batch until it is resumed; its deadline stays.",
    "resume": "Let a paused batch run again.",
}


def paths() -> Json:
    shown = sorted(known_at(batches.BATCHES, is_anthropics=False))
    listed = [parameter(name, {"type": "string"}, "query") for name in shown]
    create = operation("Make a batch of an uploaded file.", ref("Batch"), body=_NEW, more={404, 422, 429})
    create["parameters"] = [parameter("idempotency-key", HEADERS["idempotency-key"])]
    named = in_path("batch")
    one = {**operation("Show a batch.", ref("Batch"), more={404}), "parameters": named}
    acts = {
        name: {**operation(says, ref("Batch"), more={404, 409}), "parameters": named} for name, says in _ACTS.items()
    }
    listing = {**operation("List batches, newest first.", page_of("Batch")), "parameters": listed}
    return {
        batches.BATCHES: {"post": create, "get": listing},
        batches.ONE: {"get": one},
        **{f"{batches.ONE}/{name}": {"post": act} for name, act in acts.items()},
    }


def schemas() -> Json:
    return {"Batch": {"type": "object", "required": [*_FIELDS], "properties": _FIELDS}}
