"""Single jobs in the API document: their routes, and the job as an object."""

from penstock.domain.jobs.job import JobState
from penstock.domain.serving.request import JSON_APIS
from penstock.gateway.app.openapi_parts import HEADERS, Json, in_path, operation, page_of, parameter, ref
from penstock.gateway.app.queries import known_at
from penstock.gateway.deferred import jobs, shapes

_SECONDS: Json = {"type": ["integer", "null"], "description": "Unix seconds."}
_TEXT: Json = {"type": ["string", "null"]}
METADATA: Json = {
    "type": "object",
    "maxProperties": shapes.MOST_PAIRS,
    "propertyNames": {"minLength": 1, "maxLength": shapes.MOST_NAME_CHARS},
    "additionalProperties": {"type": "string", "maxLength": shapes.MOST_VALUE_CHARS},
}
_NEW: Json = {
    "type": "object",
    "required": ["api", "request"],
    "additionalProperties": False,
    "properties": {
        "api": {"enum": list(JSON_APIS), "description": "The API that answers the request."},
        "request": {"type": "object", "description": "The body as that API takes it, without stream."},
        "deadline_s": {
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "maximum": jobs.MOST_DEADLINE_S,
            "description": "Seconds from now after which the job fails; the plan's shorter time counts instead.",
        },
        "not_before": {"type": ["number", "null"], "description": "The Unix second before which it does not start."},
        "webhook": {**_TEXT, "description": "The id of an endpoint that hears of this job's end."},
        "metadata": {"anyOf": [METADATA, {"type": "null"}]},
    },
}
_FIELDS: Json = {
    "id": {"type": "string"},
    "object": {"const": "job"},
    "state": {"enum": list(JobState)},
    "reason": {**_TEXT, "description": "Why it waits, as budget or hours, or why it ended."},
    "api": {"type": "string"},
    "model": {"type": "string"},
    "version": {"type": "string", "description": "The version that answers, fixed when the job was accepted."},
    "created_at": {"type": "integer"},
    "deadline_at": {"type": "integer"},
    **dict.fromkeys(("not_before", "started_at", "cancel_requested_at", "ended_at", "expires_at"), _SECONDS),
    "attempt": {"type": "integer", "description": "Attempts that may have run."},
    "usage": {"type": ["object", "null"]},
    "error": {"type": ["object", "null"], "properties": {"code": {"type": "string"}, "message": {"type": "string"}}},
    "webhook": _TEXT,
    "metadata": METADATA,
}
_RESPONSE: Json = {
    "type": ["object", "null"],
    "required": ["status_code", "request_id", "body"],
    "description": "What the API answered, as it would have answered at once.",
}
_WHICH: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "model": {"type": "string", "description": "Only jobs for this model, as it was asked for."},
        "error": {"type": "string", "description": "Only jobs whose last error has this code."},
    },
}
_REPLAY: Json = {
    "type": "object",
    "required": ["object", "jobs"],
    "properties": {"object": {"const": "replay"}, "jobs": {"type": "integer", "description": "Jobs queued again."}},
}
_ENDS = {409}


def paths() -> Json:
    listed = [parameter(name, {"type": "string"}, "query") for name in sorted(known_at(jobs.JOBS, is_anthropics=False))]
    named, keyed = in_path("job"), parameter("idempotency-key", HEADERS["idempotency-key"])
    submit = operation(
        "Submit a request as a job.", ref("Job"), status=202, body=_NEW, more={402, 404, 408, 413, 422, 429}
    )
    submit["parameters"] = [keyed]
    return {
        jobs.JOBS: {
            "post": submit,
            "get": {**operation("List jobs, newest first.", page_of("Job")), "parameters": listed},
        },
        jobs.ONE: {
            "get": {
                **operation("Show a job with its answer and attempts.", ref("WholeJob"), more={404}),
                "parameters": named,
            },
            "delete": {**operation("Delete an ended job.", ref("Deleted"), more={404, *_ENDS}), "parameters": named},
        },
        f"{jobs.JOBS}/replay": {
            "post": operation(
                "Queue failed jobs again, oldest first.", _REPLAY, status=202, body=_WHICH, more={408, 413, 429}
            )
        },
        f"{jobs.ONE}/cancel": {
            "post": {**operation("Cancel a job.", ref("Job"), more={404, *_ENDS}), "parameters": named}
        },
        f"{jobs.ONE}/replay": {
            "post": {
                **operation("Queue a failed or cancelled job again.", ref("Job"), status=202, more={404, 429, *_ENDS}),
                "parameters": named,
            }
        },
    }


def schemas() -> Json:
    required = [*_FIELDS]
    whole = {**_FIELDS, "response": _RESPONSE, "attempts": {"type": "array", "items": {"type": "object"}}}
    return {
        "Job": {"type": "object", "required": required, "properties": _FIELDS},
        "WholeJob": {"type": "object", "required": [*required, "response", "attempts"], "properties": whole},
        "Deleted": {
            "type": "object",
            "required": ["id", "object", "deleted"],
            "properties": {"id": {"type": "string"}, "object": {"type": "string"}, "deleted": {"const": True}},
        },
    }
