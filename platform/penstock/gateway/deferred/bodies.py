"""Bounds of the bodies that are larger than a question, by method and path."""

from collections.abc import Mapping

from penstock.domain.jobs.file import MOST_FILE_BYTES
from penstock.intake.bodies import QUESTION, BodyBound
from penstock.intake.types import Scope

MOST_JOB_BYTES = 16 << 20
"""A prompt that fills a context of a million tokens, in any language; the caller's own models lower it."""

MOST_FORM_BYTES = 64 << 10
"""Bytes of an upload beside its file."""
LEAST_UPLOAD_BYTES_S = 128 << 10
"""A slow home's line uploads; the largest file takes at most 27 minutes of one of the gateway's uploads."""
UPLOAD_BYTES = 2 << 20
"""Bytes of an upload in memory: a piece from the network, and what is sealed and not yet written."""

BODIES: Mapping[tuple[str, str], BodyBound] = {
    ("POST", "/v1/jobs"): BodyBound(most_bytes=MOST_JOB_BYTES),
    ("POST", "/v1/files"): BodyBound(
        most_bytes=MOST_FILE_BYTES + MOST_FORM_BYTES, least_bytes_s=LEAST_UPLOAD_BYTES_S, held_bytes=UPLOAD_BYTES
    ),
}


def bound_of(scope: Scope) -> BodyBound:
    return BODIES.get((scope.get("method", ""), scope.get("path", "")), QUESTION)
