"""Files in the API document: an upload is a multipart form, content a stream of bytes."""

from penstock.domain.jobs.file import LEAST_KEPT_S, MOST_FILE_BYTES, MOST_KEPT_S, FilePurpose
from penstock.gateway.app.openapi_parts import (
    HEADERS,
    Json,
    answer,
    in_path,
    operation,
    page_of,
    parameter,
    ref,
    responses_of,
)
from penstock.gateway.app.queries import known_at
from penstock.gateway.deferred import files

_FORM: Json = {
    "type": "object",
    "required": ["file", "purpose"],
    "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "format": "binary", "description": f"At most {MOST_FILE_BYTES} bytes."},
        "purpose": {"const": FilePurpose.BATCH.value},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer", "minimum": int(LEAST_KEPT_S), "maximum": int(MOST_KEPT_S)},
    },
}
_FILE: Json = {
    "type": "object",
    "required": ["id", "object", "bytes", "created_at", "expires_at", "filename", "purpose", "status"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "file"},
        "bytes": {"type": "integer", "minimum": 0},
        "created_at": {"type": "integer"},
        "expires_at": {"type": ["integer", "null"], "description": "By the caller's wish and the plan's keep_s."},
        "filename": {"type": "string"},
        "purpose": {"enum": list(FilePurpose)},
        "status": {"const": "processed"},
    },
}


def paths() -> Json:
    named = {"parameters": in_path("file")}
    listed = [
        parameter(name, {"type": "string"}, "query") for name in sorted(known_at(files.FILES, is_anthropics=False))
    ]
    create = operation("Upload a batch's input.", ref("File"), more={404, 408, 409, 413, 422, 429, 507})
    create["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}
    create["parameters"] = [parameter("idempotency-key", HEADERS["idempotency-key"])]
    page = operation("List files, newest first.", page_of("File"), more={404})
    content = operation("Read a file's bytes.", ref("File"), more={404})
    content["responses"] = responses_of(content) | {
        "200": answer("The bytes as they came.", {"application/octet-stream": {"schema": {"type": "string"}}})
    }
    return {
        files.FILES: {"post": create, "get": {**page, "parameters": listed}},
        files.ONE: {
            "get": {**operation("Describe a file.", ref("File"), more={404}), **named},
            "delete": {**operation("Delete a file.", ref("Deleted"), more={404, 409}), **named},
        },
        f"{files.ONE}/content": {"get": {**content, **named}},
    }


def schemas() -> Json:
    return {"File": _FILE}
